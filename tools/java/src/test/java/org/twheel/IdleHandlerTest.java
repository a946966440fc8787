// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.bootstrap.Bootstrap;
import io.netty.bootstrap.ServerBootstrap;
import io.netty.channel.*;
import io.netty.channel.local.*;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.*;
import org.junit.jupiter.api.AfterEach;
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
		public void handlerAdded(ChannelHandlerContext ctx) {
			deadline = deadlines.newDeadline(ctx.executor(), () -> {
				deadline.reset(idleNs);
				ctx.fireUserEventTriggered(IDLE);
			});
			if (ctx.channel().isActive())
				deadline.reset(idleNs);
		}

		@Override
		public void channelActive(ChannelHandlerContext ctx) {
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
			deadline.cancel();
			ctx.fireChannelInactive();
		}

		@Override
		public void handlerRemoved(ChannelHandlerContext ctx) {
			deadline.close();
		}
	}

	private static class Next extends ChannelInboundHandlerAdapter {
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

	private final BlockingQueue<Object> seen = new LinkedBlockingQueue<>();
	private final EventLoopGroup loops =
			new MultiThreadIoEventLoopGroup(2, LocalIoHandler.newFactory());
	private final Deadlines deadlines = new Deadlines();

	@AfterEach
	void end() throws Exception {
		loops.shutdownGracefully(0, 1, TimeUnit.SECONDS).sync();
		deadlines.close();
	}

	/** Makes a client whose server has these handlers. */
	private Channel connect(ChannelHandler... handlers) throws Exception {
		LocalAddress address = new LocalAddress(IdleHandlerTest.class);
		new ServerBootstrap().group(loops).channel(LocalServerChannel.class)
				.childHandler(new ChannelInitializer<Channel>() {
					@Override
					protected void initChannel(Channel channel) {
						channel.pipeline().addLast(handlers);
					}
				}).bind(address).sync();
		return new Bootstrap().group(loops).channel(LocalChannel.class)
				.handler(new ChannelInboundHandlerAdapter()).connect(address).sync().channel();
	}

	@Test
	void silent_channel_is_idle_again_and_again() throws Exception {
		Channel client = connect(new IdleHandler(deadlines, 5_000_000), new Next(seen));
		for (int i = 0; i < 3; i++)
			assertEquals(true, seen.poll(20, TimeUnit.SECONDS));
		client.close().sync();
	}

	@Test
	void busy_channel_is_not_idle() throws Exception {
		Channel client = connect(new IdleHandler(deadlines, TimeUnit.HOURS.toNanos(1)), new Next(seen));
		for (int i = 0; i < 3; i++) {
			client.writeAndFlush(i).sync();
			assertEquals(i, seen.poll(20, TimeUnit.SECONDS));
		}
		client.close().sync();
	}

	/** A handler of a protocol that the channel changes to, and from. */
	@Test
	void handler_comes_and_goes_while_the_channel_is_active() throws Exception {
		IdleHandler idle = new IdleHandler(deadlines, 5_000_000);
		Channel client = connect(new Next(seen) {
			@Override
			public void channelRead(ChannelHandlerContext ctx, Object message) {
				if (message.equals("add"))
					ctx.pipeline().addFirst(idle);
				else
					ctx.pipeline().remove(idle);
			}
		});
		client.writeAndFlush("add").sync();
		assertEquals(true, seen.poll(20, TimeUnit.SECONDS));
		client.writeAndFlush("remove").sync();
		assertTrue(Stall.await(() -> {
			List<Object> live = new ArrayList<>();
			deadlines.slots.forEach(live::add);
			return live.isEmpty();
		}));
		client.close().sync();
	}
}
