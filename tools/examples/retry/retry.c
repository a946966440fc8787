// SPDX-License-Identifier: GPL-2.0
/*
 * Jobs that are tried again until they succeed: a sample of kernel code with a wheel.
 *
 * A job has its timeout embedded: to wait costs no memory beside it. The first attempt is
 * made at once. After each failure the delay doubles, up to a limit of attempts. Attempts
 * run on a workqueue and may sleep. An eighth of the delay is slack: jobs that failed one
 * after the other then wake the machine together.
 *
 * A job is the wheel's from job_submit() on, until its done() is called, or job_cancel()
 * returns. Either may free it.
 *
 * For a demonstration, and for its test, the module submits jobs when it is loaded to a
 * target that is down for a while. /sys/kernel/debug/twheel_retry counts the attempts, also
 * those of the last second, and their results. Jobs that still wait are cancelled when it is
 * unloaded.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/debugfs.h>
#include <linux/err.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/time64.h>
#include <linux/vmalloc.h>

#include "twheel.h"

static unsigned int jobs = 1000;
module_param(jobs, uint, 0444);
MODULE_PARM_DESC(jobs, "jobs to submit");

static unsigned int failures = 3;
module_param(failures, uint, 0444);
MODULE_PARM_DESC(failures, "how often each of them fails before it succeeds");

static unsigned int attempts = 5;
module_param(attempts, uint, 0444);
MODULE_PARM_DESC(attempts, "how often a job is tried at most");

static unsigned int delay_ms = 100;
module_param(delay_ms, uint, 0444);
MODULE_PARM_DESC(delay_ms, "delay after the first failure, doubled after each");

#define MAX_DOUBLINGS	16

struct job {
	struct twheel_work retry;
	unsigned int attempts;
	u64 due;		/* on the wheel's clock */
	int (*try)(struct job *job);
	void (*done)(struct job *job, int err);
};

static struct twheel *wheel;

static int job_arm(struct job *job, u64 delay_ns)
{
	job->due = twheel_now(wheel) + delay_ns;
	return twheel_arm_slack(&job->retry.t, job->due, delay_ns / 8);
}

static u64 job_delay_ns(const struct job *job)
{
	u64 first_ns = (u64)delay_ms * NSEC_PER_MSEC;

	return first_ns << min_t(unsigned int, job->attempts - 1, MAX_DOUBLINGS);
}

/* An arm fails while the job is being cancelled. */
static void job_run(struct work_struct *work)
{
	struct job *job = container_of(work, struct job, retry.work);
	int err;

	job->attempts++;
	err = job->try(job);
	if (err && job->attempts < attempts && !job_arm(job, job_delay_ns(job)))
		return;
	job->done(job, err);
}

static int job_submit(struct job *job)
{
	job->attempts = 0;
	twheel_work_init(wheel, &job->retry, job_run);
	return job_arm(job, 0);
}

/* True if it was waiting: done() is not called. Waits for an attempt that is running. */
static bool job_cancel(struct job *job)
{
	return twheel_cancel_work_sync(&job->retry);
}

/* The demonstration. */

static struct job *demo;
static struct dentry *file;
static atomic_t tried, early, succeeded, given_up;

/* A periodic timeout: its callback moves the deadline past now, and arms it again. */
static struct twheel_timeout second;
static int tried_before, in_last_second;

static void second_over(struct twheel_timeout *t)
{
	int now = atomic_read(&tried);

	WRITE_ONCE(in_last_second, now - tried_before);
	tried_before = now;
	twheel_forward(t, twheel_now(wheel), NSEC_PER_SEC);
	twheel_arm(t, t->expires);
}

static int target_try(struct job *job)
{
	atomic_inc(&tried);
	if (twheel_now(wheel) < job->due)
		atomic_inc(&early);
	return job->attempts <= failures ? -ECONNREFUSED : 0;
}

static void demo_done(struct job *job, int err)
{
	atomic_inc(err ? &given_up : &succeeded);
}

static int demo_show(struct seq_file *m, void *v)
{
	seq_printf(m, "attempts %d\n", atomic_read(&tried));
	seq_printf(m, "in the last second %d\n", READ_ONCE(in_last_second));
	seq_printf(m, "early %d\n", atomic_read(&early));
	seq_printf(m, "succeeded %d\n", atomic_read(&succeeded));
	seq_printf(m, "given up %d\n", atomic_read(&given_up));
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(demo);

static int demo_submit(void)
{
	int err;

	for (unsigned int i = 0; i < jobs; i++) {
		demo[i].try = target_try;
		demo[i].done = demo_done;
		err = job_submit(&demo[i]);
		if (err)
			return err;
	}
	return 0;
}

/* Jobs that were never submitted are all zeros, which job_cancel() cannot take. */
static void demo_cancel(void)
{
	for (unsigned int i = 0; i < jobs && demo[i].try; i++)
		job_cancel(&demo[i]);
}

static int __init retry_init(void)
{
	int err;

	if (!jobs)
		return -EINVAL;
	demo = vcalloc(jobs, sizeof(*demo));
	if (!demo)
		return -ENOMEM;
	wheel = twheel_create(&(struct twheel_params){ .name = "retry" });
	if (IS_ERR(wheel)) {
		err = PTR_ERR(wheel);
		goto free_jobs;
	}
	twheel_timeout_init(wheel, &second, second_over);
	err = twheel_arm_after(&second, NSEC_PER_SEC);
	if (!err)
		err = demo_submit();
	if (err)
		goto cancel_jobs;
	file = debugfs_create_file("twheel_retry", 0444, NULL, NULL, &demo_fops);
	return 0;

cancel_jobs:
	twheel_shutdown(&second);
	demo_cancel();
	twheel_destroy(wheel);
free_jobs:
	vfree(demo);
	return err;
}

static void __exit retry_exit(void)
{
	debugfs_remove(file);
	twheel_shutdown(&second);
	demo_cancel();
	twheel_destroy(wheel);
	vfree(demo);
}

module_init(retry_init);
module_exit(retry_exit);

MODULE_DESCRIPTION("Jobs that are tried again: a sample for twheel");
MODULE_LICENSE("GPL");
