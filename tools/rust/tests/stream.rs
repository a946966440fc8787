// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! The feature `tokio`.

use std::time::Duration;

use tokio::runtime::Builder;
use twheel::tokio::Expirations;
use twheel::Context;

const HOUR: Duration = Duration::from_secs(3600);

#[test]
fn stream_ends_after_the_last_event() {
    Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
        let context = Context::open().unwrap();
        let mut expirations = Expirations::new(&context).unwrap();
        for cookie in 0..200 {
            context.arm(Duration::from_micros(cookie), cookie).unwrap();
        }
        let mut sum = 0;
        for _ in 0..200 {
            sum += expirations.next().await.unwrap().unwrap().cookie();
        }
        assert_eq!(sum, 199 * 200 / 2);
        context.arm(HOUR, 7).unwrap();
        context.stop().unwrap();
        assert!(expirations.next().await.unwrap().unwrap().is_unprocessed());
        assert!(expirations.next().await.is_none());
    });
}
