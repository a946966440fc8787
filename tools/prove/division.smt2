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

(declare-const q2 Int)
(declare-const r2 Int)
(echo "unsat a_division_has_one_result")
(check-sat-assuming ((divided deadline q2 r2) (not (and (= q q2) (= r r2)))))

(echo "unsat first_tick_is_the_last_one_before_a_tick_less_1_ns_later")
(define-const sum Int (+ deadline (- d 1)))
(check-sat-assuming ((divided sum q2 r2)
		     (not (and (= q2 tick) (< sum 18446744073709551616)))))

(echo "unsat quotient_and_product_fit_into_the_clock")
(check-sat-assuming ((not (and (<= 0 q deadline) (<= 0 (* q d) deadline)))))

; linux.h assumes the bound of the quotient above, and the next lemma.
(echo "unsat clock_has_ticks_of_a_day")
(check-sat-assuming ((= deadline end) (not (<= 106751 q))))

(echo "unsat tick_begins_at_or_after_the_deadline")
(check-sat-assuming ((not (>= (* tick d) deadline))))

(echo "unsat tick_begins_less_than_a_tick_after_the_deadline")
(check-sat-assuming ((not (< (- (* tick d) deadline) d))))

(echo "unsat tick_of_a_deadline_is_within_the_clock")
(check-sat-assuming ((not (<= 0 tick end))))

(echo "unsat due_timeout_has_reached_its_deadline")
(check-sat-assuming ((<= tick target) (not (>= now deadline))))

(echo "unsat timeout_almost_a_tick_late_is_due")
(check-sat-assuming ((>= now (+ deadline (- d 1))) (not (<= tick target))))

(echo "unsat a_pass_when_the_tick_begins_finds_it_due")
(check-sat-assuming ((= now (* tick d)) (not (= target tick))))

(echo "unsat a_pass_before_the_tick_begins_does_not")
(check-sat-assuming ((< now (* tick d)) (not (< target tick))))

(echo "sat such_deadlines_exist")
(check-sat-assuming ((and (> q 1) (> r 1) (> now deadline))))

; An early cascade begins as many ticks before its block as a time makes, rounded up.
(declare-const time Int)
(declare-const q3 Int)
(declare-const r3 Int)
(declare-const start Int)
(assert (<= 0 time))
(assert (divided time q3 r3))
(define-const early Int (- start (+ q3 (ite (= r3 0) 0 1))))
(assert (<= 0 early))

(echo "unsat early_cascade_has_its_time")
(check-sat-assuming ((not (>= (- (* start d) (* early d)) time))))

(echo "unsat early_cascade_begins_less_than_a_tick_too_soon")
(check-sat-assuming ((not (< (- (* start d) (* early d) time) d))))

(echo "sat such_cascades_exist")
(check-sat-assuming ((and (> early 1) (> q3 1) (> r3 1))))

; The phase of a periodic timeout: missed counts the deadlines that are left out
; between the one that fires and the next one, which is the first after now. twheel_forward()
; adds one interval more than that.
(declare-const interval Int)
(declare-const missed Int)
(declare-const part Int)
(assert (<= 1 interval end))
(assert (>= now deadline))
(assert (= (- now deadline) (+ (* missed interval) part)))
(assert (and (<= 0 part) (< part interval)))

(echo "unsat next_period_fits_into_64_bits")
(check-sat-assuming ((not (< (+ deadline (* (+ missed 1) interval)) 18446744073709551616))))

(echo "unsat last_period_missed_has_passed")
(check-sat-assuming ((not (<= deadline (+ deadline (* missed interval)) now))))

(echo "unsat next_period_is_the_first_after_now")
(check-sat-assuming ((not (< now (+ deadline (* (+ missed 1) interval))))))

(echo "sat such_periods_exist")
(check-sat-assuming ((> missed 1)))
