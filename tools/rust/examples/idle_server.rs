// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
//! A TCP server that drops idle connections, with tokio.
//!
//! ```text
//! idle_server ADDRESS:PORT [SECONDS]    echoes, and drops silent clients after that time (60)
//! idle_server --self-test [CLIENTS]     starts clients of its own, and checks the server
//! ```
//!
//! All connections share a [`Timer`]. Each has one [`Sleep`](twheel::sleep::Sleep), which is a
//! cell. Traffic resets the sleep with an exchange in memory, however many connections there are.
//! A connection that ends leaves its cell for the next one.
//!
//! When the process has no descriptors left, `accept()` fails and the listener stays readable. The
//! server then waits for a moment: on a sleep of the same timer.

use std::net::SocketAddr;
use std::time::{Duration, Instant};
use std::{env, error, io};

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Builder;
use twheel::sleep::Timer;

const PAUSE: Duration = Duration::from_millis(100);

/// Echo until the client closes the connection, or has been silent for `idle`. A client that
/// does not take the echo counts as silent, too.
async fn serve(mut stream: TcpStream, timer: Timer, idle: Duration) -> io::Result<()> {
    let mut silence = timer.sleep(idle)?;
    let mut room = [0; 2048];
    loop {
        let length = silence.limit(stream.read(&mut room)).await??;
        if length == 0 {
            return Ok(());
        }
        silence.reset(idle)?;
        silence.limit(stream.write_all(&room[..length])).await??;
    }
}

async fn accept_all(listener: TcpListener, timer: Timer, idle: Duration) -> twheel::Result<()> {
    // It has its timeout before the limit is reached.
    let mut pause = timer.sleep(PAUSE)?;
    loop {
        match listener.accept().await {
            Ok((stream, _)) => drop(tokio::spawn(serve(stream, timer.clone(), idle))),
            Err(_) => {
                pause.reset(PAUSE)?;
                (&mut pause).await;
            }
        }
    }
}

/// A client that speaks `times` times, and is silent from then on. Returns the time from its last
/// words that the server has echoed, or from the beginning, to the end of the connection.
async fn client(
    address: SocketAddr,
    timer: Timer,
    times: u32,
    every: Duration,
) -> io::Result<Duration> {
    let mut spoke = Instant::now();
    let mut stream = TcpStream::connect(address).await?;
    let mut room = [0; 64];
    for _ in 0..times {
        timer.sleep(every)?.await;
        let now = Instant::now();
        if stream.write_all(b"still here\n").await.is_err() {
            break;
        }
        match stream.read(&mut room).await {
            Ok(length) if length > 0 => spoke = now,
            _ => break,
        }
    }
    while matches!(stream.read(&mut room).await, Ok(length) if length > 0) {}
    Ok(spoke.elapsed())
}

/// Every other client speaks for three times the idle time. Nobody may be dropped early.
async fn self_test(clients: u32) -> Result<(), Box<dyn error::Error>> {
    const IDLE: Duration = Duration::from_millis(400);
    let timer = Timer::open()?;
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(accept_all(listener, timer.clone(), IDLE));
    let tasks: Vec<_> = (0..clients)
        .map(|n| tokio::spawn(client(address, timer.clone(), n % 2 * 6, IDLE / 2)))
        .collect();
    for (n, task) in tasks.into_iter().enumerate() {
        let waited = task.await??;
        if waited < IDLE {
            return Err(format!("client {n} was dropped after {waited:?}").into());
        }
    }
    println!("{clients} clients were dropped, none of them early");
    Ok(())
}

fn main() -> Result<(), Box<dyn error::Error>> {
    let usage = "usage: idle_server ADDRESS:PORT [SECONDS], or --self-test [CLIENTS]";
    let address = env::args().nth(1).ok_or(usage)?;
    let number = env::args().nth(2).map(|text| text.parse::<u32>()).transpose()?;
    Builder::new_current_thread().enable_all().build()?.block_on(async {
        if address == "--self-test" {
            return self_test(number.unwrap_or(100)).await;
        }
        let listener = TcpListener::bind(address).await?;
        let idle = Duration::from_secs(number.unwrap_or(60).into());
        Ok(accept_all(listener, Timer::open()?, idle).await?)
    })
}
