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
import org.twheel.netty.IdleHandler;

class IdleHandlerTest {
	private class Next extends ChannelInboundHandlerAdapter {
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
		Channel client = connect(new IdleHandler(deadlines, 5, TimeUnit.MILLISECONDS),
				new Next());
		for (int i = 0; i < 3; i++)
			assertEquals(true, seen.poll(20, TimeUnit.SECONDS));
		client.close().sync();
	}

	@Test
	void busy_channel_is_not_idle() throws Exception {
		Channel client = connect(new IdleHandler(deadlines, 1, TimeUnit.HOURS), new Next());
		for (int i = 0; i < 3; i++) {
			client.writeAndFlush(i).sync();
			assertEquals(i, seen.poll(20, TimeUnit.SECONDS));
		}
		client.close().sync();
	}

	/** A handler of a protocol that the channel changes to, and from. */
	@Test
	void handler_comes_and_goes_while_the_channel_is_active() throws Exception {
		IdleHandler idle = new IdleHandler(deadlines, 5, TimeUnit.MILLISECONDS);
		Channel client = connect(new Next() {
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
		assertTrue(Patience.await(() -> {
			List<Object> live = new ArrayList<>();
			deadlines.slots.forEach(live::add);
			return live.isEmpty();
		}));
		client.close().sync();
	}
}
