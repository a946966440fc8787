// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel.example;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.Channel;
import io.netty.channel.ChannelHandler;
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
import org.twheel.Deadlines;

class IdleHandlerTest {
	private static final long HOUR = TimeUnit.HOURS.toNanos(1);

	private final BlockingQueue<Object> seen = new LinkedBlockingQueue<>();

	/** Notes events and messages, and closes the channel at the second idle time. */
	private final class Server extends ChannelInboundHandlerAdapter {
		private int idle;

		@Override
		public void userEventTriggered(ChannelHandlerContext ctx, Object event) {
			seen.add(event == IdleHandler.IDLE && ctx.executor().inEventLoop() ? "idle" : event);
			if (++idle == 2)
				ctx.close();
		}

		@Override
		public void channelRead(ChannelHandlerContext ctx, Object message) {
			seen.add(message);
		}
	}

	private Channel connect(EventLoopGroup loops, String name, ChannelHandler... handlers)
			throws Exception {
		LocalAddress address = new LocalAddress(name);
		new ServerBootstrap().group(loops).channel(LocalServerChannel.class)
				.childHandler(new io.netty.channel.ChannelInitializer<Channel>() {
					@Override
					protected void initChannel(Channel channel) {
						channel.pipeline().addLast(handlers);
					}
				}).bind(address).sync();
		return new Bootstrap().group(loops).channel(LocalChannel.class)
				.handler(new ChannelInboundHandlerAdapter()).connect(address).sync().channel();
	}

	@Test
	void silent_channel_is_idle_again_and_again_and_a_busy_one_is_not() throws Exception {
		EventLoopGroup loops = new MultiThreadIoEventLoopGroup(2, LocalIoHandler.newFactory());
		try (Deadlines deadlines = new Deadlines()) {
			Channel silent = connect(loops, "silent", new IdleHandler(deadlines, 5,
					TimeUnit.MILLISECONDS), new Server());
			assertEquals("idle", seen.take());
			assertEquals("idle", seen.take());
			silent.closeFuture().sync();
			Channel busy = connect(loops, "busy", new IdleHandler(deadlines, HOUR,
					TimeUnit.NANOSECONDS), new Server());
			for (int i = 0; i < 100; i++)
				busy.writeAndFlush(i).sync();
			for (int i = 0; i < 100; i++)
				assertEquals(i, seen.take());
			busy.close().sync();
			assertTrue(seen.isEmpty());
		} finally {
			loops.shutdownGracefully(0, 1, TimeUnit.SECONDS).sync();
		}
	}
}
