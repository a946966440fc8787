; SPDX-License-Identifier: GPL-2.0
;
; The consequences of rounding to ticks for deadlines, over the integers, for any
; numbers without bound. A division is its axiom
;
;	x = quotient * divisor + remainder,  0 <= remainder < divisor
;
; reciprocal.smt2 and division.c prove that the functions compute the first tick from
; it as said here, with numbers of 64 bits.
;
; Every lemma asks for a counterexample. Its name is printed first, and begins with
; the answer that proves it.

(set-option :print-success false)
(define-const end Int 9223372036854775807)		; S64_MAX
(declare-const d Int)
(assert (<= 1 d 86400000000000))

; quotient and remainder of x by d
(define-fun divided ((x Int) (quotient Int) (remainder Int)) Bool
	(and (= x (+ (* quotient d) remainder)) (<= 0 remainder) (< remainder d)))

; the deadline and its tick
(declare-const deadline Int)
(declare-const q Int)
(declare-const r Int)
(define-const tick Int (+ q (ite (= r 0) 0 1)))
(assert (<= 0 deadline end))
(assert (divided deadline q r))

; the time of a pass and its tick: a timeout is due if its tick <= target
(declare-const now Int)
(declare-const target Int)
(declare-const rest Int)
(assert (<= 0 now end))
(assert (divided now target rest))

(echo "unsat a_division_has_one_result")
(push)
(declare-const q2 Int)
(declare-const r2 Int)
(assert (divided deadline q2 r2))
(assert (or (not (= q q2)) (not (= r r2))))
(check-sat)
(pop)

(echo "unsat first_tick_is_the_last_one_before_a_tick_less_1_ns_later")
(push)
(declare-const q2 Int)
(declare-const r2 Int)
(define-const sum Int (+ deadline (- d 1)))
(assert (divided sum q2 r2))
(assert (not (and (= q2 tick) (< sum 18446744073709551616))))
(check-sat)
(pop)

(echo "unsat quotient_and_product_fit_into_the_clock")
(push)
(assert (not (and (<= 0 q deadline) (<= 0 (* q d) deadline))))
(check-sat)
(pop)

; The next two are the assumptions of linux/math64.h.
(echo "unsat quotient_is_not_above_the_dividend")
(push)
(assert (not (<= q deadline)))
(check-sat)
(pop)

(echo "unsat clock_has_ticks_of_a_day")
(push)
(assert (= deadline end))
(assert (not (<= 106751 q)))
(check-sat)
(pop)

(echo "unsat tick_begins_at_or_after_the_deadline")
(push)
(assert (not (>= (* tick d) deadline)))
(check-sat)
(pop)

(echo "unsat tick_begins_less_than_a_tick_after_the_deadline")
(push)
(assert (not (< (- (* tick d) deadline) d)))
(check-sat)
(pop)

(echo "unsat tick_of_a_deadline_is_within_the_clock")
(push)
(assert (not (<= 0 tick end)))
(check-sat)
(pop)

(echo "unsat due_timeout_has_reached_its_deadline")
(push)
(assert (<= tick target))
(assert (not (>= now deadline)))
(check-sat)
(pop)

(echo "unsat timeout_almost_a_tick_late_is_due")
(push)
(assert (>= now (+ deadline (- d 1))))
(assert (not (<= tick target)))
(check-sat)
(pop)

(echo "unsat a_pass_when_the_tick_begins_finds_it_due")
(push)
(assert (= now (* tick d)))
(assert (not (= target tick)))
(check-sat)
(pop)

(echo "unsat a_pass_before_the_tick_begins_does_not")
(push)
(assert (< now (* tick d)))
(assert (not (< target tick)))
(check-sat)
(pop)

; The phase of a periodic timeout: missed counts the deadlines that are left out
; between the one that fires and the next one, which is the first after now. twheel_forward()
; adds one interval more than that.
(push)
(declare-const interval Int)
(declare-const missed Int)
(declare-const part Int)
(assert (<= 1 interval end))
(assert (>= now deadline))
(assert (= (- now deadline) (+ (* missed interval) part)))
(assert (and (<= 0 part) (< part interval)))

(echo "unsat next_period_fits_into_64_bits")
(push)
(assert (not (< (+ deadline (* (+ missed 1) interval)) 18446744073709551616)))
(check-sat)
(pop)

(echo "unsat last_period_missed_has_passed")
(push)
(assert (not (<= deadline (+ deadline (* missed interval)) now)))
(check-sat)
(pop)

(echo "unsat next_period_is_the_first_after_now")
(push)
(assert (not (< now (+ deadline (* (+ missed 1) interval)))))
(check-sat)
(pop)

(echo "sat such_periods_exist")
(push)
(assert (> missed 1))
(check-sat)
(pop)
(pop)

; An early cascade begins as many ticks before its block as a time makes, rounded up.
(push)
(declare-const time Int)
(declare-const q3 Int)
(declare-const r3 Int)
(declare-const start Int)
(assert (<= 0 time))
(assert (divided time q3 r3))
(define-const early Int (- start (+ q3 (ite (= r3 0) 0 1))))
(assert (<= 0 early))

(echo "unsat early_cascade_has_its_time")
(push)
(assert (not (>= (- (* start d) (* early d)) time)))
(check-sat)
(pop)

(echo "unsat early_cascade_begins_less_than_a_tick_too_soon")
(push)
(assert (not (< (- (* start d) (* early d) time) d)))
(check-sat)
(pop)

(echo "sat such_cascades_exist")
(push)
(assert (and (> early 1) (> q3 1) (> r3 1)))
(check-sat)
(pop)
(pop)

(echo "sat such_deadlines_exist")
(assert (and (> q 1) (> r 1) (> now deadline)))
(check-sat)
