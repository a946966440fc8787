// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel.netty;

import io.netty.channel.ChannelHandlerContext;
import io.netty.channel.ChannelInboundHandlerAdapter;
import java.util.concurrent.TimeUnit;
import org.twheel.Deadline;
import org.twheel.Deadlines;

/**
 * Tells the next handler when nothing was read for a time, again and again, as Netty's
 * IdleStateHandler does for reads. Each read moves a {@link Deadline}, and a channel that is in use
 * wakes nobody. It needs netty-transport.
 *
 * <p>Each channel has a handler of its own. Callbacks run on the event loop of the channel.
 */
public class IdleHandler extends ChannelInboundHandlerAdapter {
	/** The event that the next handler gets. */
	public static final Object IDLE = new Object() {
		@Override
		public String toString() {
			return "IDLE";
		}
	};

	private final Deadlines deadlines;
	private final long idleNs;
	private Deadline deadline;

	/**
	 * Makes a handler for one channel.
	 *
	 * @param deadlines one set for the program; the caller closes it after the channels
	 * @param idle      the time without a read after which a channel is idle
	 * @param unit      the unit of idle
	 */
	public IdleHandler(Deadlines deadlines, long idle, TimeUnit unit) {
		this.deadlines = deadlines;
		idleNs = unit.toNanos(idle);
	}

	/** Called when the channel is idle; passes {@link #IDLE} to the next handler. */
	protected void channelIdle(ChannelHandlerContext ctx) throws Exception {
		ctx.fireUserEventTriggered(IDLE);
	}

	@Override
	public void handlerAdded(ChannelHandlerContext ctx) {
		deadline = deadlines.newDeadline(ctx.executor(), () -> {
			deadline.reset(idleNs);
			try {
				channelIdle(ctx);
			} catch (Throwable t) {
				ctx.fireExceptionCaught(t);
			}
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
