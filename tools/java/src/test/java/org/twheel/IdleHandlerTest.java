// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.assertEquals;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import io.netty.channel.EventLoopGroup;
import io.netty.channel.MultiThreadIoEventLoopGroup;
import io.netty.channel.local.LocalAddress;
import io.netty.channel.local.LocalChannel;
import io.netty.channel.local.LocalIoHandler;
import io.netty.channel.local.LocalServerChannel;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.Test;

/** An example for Netty, which the README shows. */
class IdleHandlerTest {
	/**
	 * Tells the next handler when nothing was read for a time, again and again, as IdleStateHandler
	 * of Netty does. Callbacks run on the event loop of the channel.
	 */
	static class IdleHandler extends ChannelInboundHandlerAdapter {
		static final Object IDLE = new Object();

		private final Deadlines deadlines;
		private final long idleNs;
		private Deadline deadline;

		IdleHandler(Deadlines deadlines, long idleNs) {
			this.deadlines = deadlines;
			this.idleNs = idleNs;
		}

		@Override
		public void channelActive(ChannelHandlerContext ctx) {
			deadline = deadlines.newDeadline(ctx.executor(), () -> {
				deadline.reset(idleNs);
				ctx.fireUserEventTriggered(IDLE);
			});
			deadline.reset(idleNs);
			ctx.fireChannelActive();
		}

		@Override
		public void channelReadComplete(ChannelHandlerContext ctx) {
			deadline.reset(idleNs);
			ctx.fireChannelReadComplete();
		}

		@Override
		public void channelInactive(ChannelHandlerContext ctx) {
			deadline.close();
			ctx.fireChannelInactive();
		}
	}

	private static final class Next extends ChannelInboundHandlerAdapter {
		private final BlockingQueue<Object> seen;

		Next(BlockingQueue<Object> seen) {
			this.seen = seen;
		}

		@Override
		public void userEventTriggered(ChannelHandlerContext ctx, Object event) {
			seen.add(event == IdleHandler.IDLE && ctx.executor().inEventLoop());
		}

		@Override
		public void channelRead(ChannelHandlerContext ctx, Object message) {
			seen.add(message);
		}
	}

	@Test
	void silent_channel_is_idle_again_and_again_and_a_busy_one_is_not() throws Exception {
		EventLoopGroup loops = new MultiThreadIoEventLoopGroup(2, LocalIoHandler.newFactory());
		try (Deadlines deadlines = new Deadlines()) {
			for (long idleNs : new long[] { 5_000_000, TimeUnit.HOURS.toNanos(1) }) {
				BlockingQueue<Object> seen = new LinkedBlockingQueue<>();
				LocalAddress address = new LocalAddress("idle-" + idleNs);
				new ServerBootstrap().group(loops).channel(LocalServerChannel.class)
						.childHandler(new IdleHandler(deadlines, idleNs) {
							@Override
							public void handlerAdded(ChannelHandlerContext ctx) {
								ctx.pipeline().addLast(new Next(seen));
							}
						}).bind(address).sync();
				Channel client = new Bootstrap().group(loops).channel(LocalChannel.class)
						.handler(new ChannelInboundHandlerAdapter()).connect(address).sync().channel();
				for (int i = 0; i < 3; i++) {
					if (idleNs > 5_000_000)
						client.writeAndFlush(i).sync();
					assertEquals(idleNs > 5_000_000 ? i : true, seen.take());
				}
				client.close().sync();
			}
		} finally {
			loops.shutdownGracefully(0, 1, TimeUnit.SECONDS).sync();
		}
	}
}
