//! The exponential and the activation function, without a branch, so that they become vector code.

use super::kernel::Arithmetic;

/// Below this, `exp` is nothing that an `f32` could hold.
const LOWEST: f32 = -87.0;
/// Adding it rounds to a whole number, which is then in the lowest bits.
const ROUNDER: f32 = 12_582_912.0;
/// Makes those bits an exponent.
const EXPONENT_BIAS: u32 = 127;
/// ln 2 in two parts: the first has so few digits that its products with small whole numbers are exact.
const LN_2_HIGH: f32 = 0.693_359_4;
const LN_2_LOW: f32 = -2.121_944_4e-4;
/// The series of exp; for |x| < ln 2 / 2 the next term is below 6e-9.
const SERIES: [f32; 8] = [1.0, 1.0, 1.0 / 2.0, 1.0 / 6.0, 1.0 / 24.0, 1.0 / 120.0, 1.0 / 720.0, 1.0 / 5040.0];

/// How `tests/reference/gelu.py` chose the variable of the polynomial, and what it found.
const SLOPE: f32 = 0.3;
const TERMS: [f32; 8] = [
    0.239_251_73,
    0.241_624_36,
    0.199_027_02,
    0.260_01,
    -0.113_290_03,
    0.419_639_3,
    -0.318_709_1,
    0.072_446_74,
];

/// `e^x` for `x` of at most zero, to a few units of the last digit.
#[inline(always)]
pub(super) fn exp<A: Arithmetic>(x: f32) -> f32 {
    let x = if x < LOWEST { LOWEST } else { x };
    let rounded = A::mul_add(x, std::f32::consts::LOG2_E, ROUNDER);
    let whole = rounded - ROUNDER;
    let rest = A::mul_add(whole, -LN_2_LOW, A::mul_add(whole, -LN_2_HIGH, x));
    let scale = f32::from_bits(rounded.to_bits().wrapping_add(EXPONENT_BIAS) << 23);
    polynomial::<A>(&SERIES, rest) * scale
}

/// `x` times the normal distribution's probability of less than `x`.
///
/// The tail is `exp(-x²/2) / 2` times a smooth function, so that small results keep their digits too.
#[inline(always)]
pub(super) fn gelu<A: Arithmetic>(x: f32) -> f32 {
    let size = x.abs();
    let t = 1.0 / A::mul_add(size, SLOPE, 1.0);
    let tail = 0.5 * t * polynomial::<A>(&TERMS, t) * exp::<A>(-0.5 * size * size);
    x * if x < 0.0 { tail } else { 1.0 - tail }
}

#[inline(always)]
fn polynomial<A: Arithmetic>(terms: &[f32; 8], x: f32) -> f32 {
    let mut sum = terms[7];
    for at in (0..7).rev() {
        sum = A::mul_add(sum, x, terms[at]);
    }
    sum
}
