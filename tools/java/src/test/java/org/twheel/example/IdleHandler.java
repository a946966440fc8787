// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel.example;

import io.netty.channel.ChannelDuplexHandler;
import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelPromise;
import java.util.concurrent.TimeUnit;
import org.twheel.Deadline;
import org.twheel.Deadlines;

/**
 * Tells the next handler when a channel has been idle, as IdleStateHandler of Netty does, again
 * after each such time. Each read and each write that is complete moves the deadline. All channels
 * of a program share the deadlines; their callbacks run on the event loop of the channel.
 */
public final class IdleHandler extends ChannelDuplexHandler {
	/** The user event. */
	public static final Object IDLE = new Object();

	private final Deadlines deadlines;
	private final long idleNs;
	private Deadline deadline;

	public IdleHandler(Deadlines deadlines, long idle, TimeUnit unit) {
		this.deadlines = deadlines;
		idleNs = unit.toNanos(idle);
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
	public void handlerRemoved(ChannelHandlerContext ctx) {
		deadline.close();
	}

	@Override
	public void channelActive(ChannelHandlerContext ctx) {
		deadline.reset(idleNs);
		ctx.fireChannelActive();
	}

	@Override
	public void channelInactive(ChannelHandlerContext ctx) {
		deadline.cancel();
		ctx.fireChannelInactive();
	}

	@Override
	public void channelReadComplete(ChannelHandlerContext ctx) {
		deadline.reset(idleNs);
		ctx.fireChannelReadComplete();
	}

	@Override
	public void write(ChannelHandlerContext ctx, Object message, ChannelPromise promise) {
		ctx.write(message, promise.unvoid()).addListener(written -> {
			if (ctx.channel().isActive() && !ctx.isRemoved())
				deadline.reset(idleNs);
		});
	}
}
