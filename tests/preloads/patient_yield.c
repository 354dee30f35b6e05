/* patient_yield.c — sched_yield() that sleeps for a moment instead.
 *
 * Both MPI libraries wait by yielding. When a dozen threads do so on two cores, Linux 6.12 to 6.18 may run nothing else
 * for minutes: kernel workers, timers and the other programs of the machine starve with the job ("rcu_preempt detected
 * stalls ... do_sched_yield"). Tests that start so many threads are preloaded with this.
 *
 * SPDX-License-Identifier: Apache-2.0
 */
#include <time.h>

int sched_yield(void) {
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    return 0;
}
