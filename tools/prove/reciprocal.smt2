; SPDX-License-Identifier: GPL-2.0
;
; The division of a time by the length of a tick, made by a multiplication with a
; reciprocal and one correction: it is exact for every time of 64 bits and every
; length of a tick up to a day. Over the integers, so that no product overflows
; here; that none overflows in 64 bits is a lemma, too.
;
; division.c proves that the functions compute these numbers.
;
; Every lemma asks for a counterexample. Its name is printed first, and begins with
; the answer that proves it.

(set-option :print-success false)
(define-const word Int 18446744073709551616)		; 2^64
(declare-const d Int)
(declare-const ns Int)
(assert (<= 1 d 86400000000000))
(assert (and (<= 0 ns) (< ns word)))

; reciprocal = (2^64 - 1) / d, with the remainder r
(declare-const reciprocal Int)
(define-const r Int (- (- word 1) (* reciprocal d)))
(assert (and (<= 0 r) (< r d)))

; high = ns * reciprocal / 2^64, the high half of the product; low is the other half
(declare-const high Int)
(define-const low Int (- (* ns reciprocal) (* high word)))
(assert (and (<= 0 low) (< low word)))

; the quotient and the rest, before the correction and after it
(define-const rest Int (- ns (* high d)))
(define-const quotient Int (+ high (ite (>= rest d) 1 0)))
(define-const remainder Int (- rest (ite (>= rest d) d 0)))

; This is the axiom of linux.h.
(echo "unsat high_half_is_a_quotient_too_small_by_one_at_most")
(check-sat-assuming ((not (and (<= 0 high ns) (<= 0 rest) (< rest (* 2 d))))))

(echo "unsat corrected_quotient_and_remainder_are_those_of_the_division")
(check-sat-assuming ((not (and (= ns (+ (* quotient d) remainder))
			       (<= 0 remainder) (< remainder d)))))

(echo "unsat no_number_passes_64_bits")
(check-sat-assuming ((not (and (< reciprocal word) (< high word) (<= 0 (* high d) ns)
			       (< rest word) (<= 0 quotient ns)))))

(echo "sat some_quotients_need_the_correction")
(check-sat-assuming ((and (> high 1) (= d 1000000) (> rest d))))

(echo "sat some_multiples_of_a_tick_need_the_correction")
(check-sat-assuming ((and (> high 1) (= d 7) (= rest d))))

(echo "sat some_quotients_need_no_correction")
(check-sat-assuming ((and (> high 1) (= d 1000000) (< 0 rest d))))
