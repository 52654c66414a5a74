//! Each kernel that this processor has, against loops that anybody can check.

use proptest::prelude::*;

use super::kernel::{Arithmetic, Work};
use super::*;

/// Numbers as they occur in a model, and some that do not.
fn numbers(count: usize) -> impl Strategy<Value = Vec<f32>> {
    proptest::collection::vec(-4.0f32..4.0, count)
}

#[derive(Debug, Clone)]
struct Product {
    rows: usize,
    inner: usize,
    columns: usize,
    left: Vec<f32>,
    right: Vec<f32>,
    bias: Vec<f32>,
    then: Then,
}

fn product() -> impl Strategy<Value = Product> {
    // The inner dimension goes beyond what is done in one go.
    (1..20usize, 1..900usize, 1..40usize, prop_oneof![Just(Then::Store), Just(Then::Gelu)])
        .prop_flat_map(|(rows, inner, columns, then)| {
            (
                Just((rows, inner, columns, then)),
                numbers(rows * inner),
                numbers(inner * columns),
                numbers(columns),
            )
        })
        .prop_map(|((rows, inner, columns, then), left, right, bias)| Product {
            rows,
            inner,
            columns,
            left,
            right,
            bias,
            then,
        })
}

impl Product {
    fn plain(&self) -> Vec<f64> {
        let mut out = Vec::new();
        for row in 0..self.rows {
            for column in 0..self.columns {
                let mut sum = f64::from(self.bias[column]);
                for at in 0..self.inner {
                    sum += f64::from(self.left[row * self.inner + at])
                        * f64::from(self.right[at * self.columns + column]);
                }
                out.push(if self.then == Then::Gelu { plain_gelu(sum) } else { sum });
            }
        }
        out
    }

    /// Through a window of something wider, whose other cells must stay as they are.
    fn on(&self, kernel: Kernel, transposed: bool) -> Vec<f32> {
        let Product { rows, inner, columns, .. } = *self;
        let (mut left, mut right) = (Blocks::default(), Panels::default());
        left.fill(&self.left, rows, Window::whole(inner));
        if transposed {
            let turned: Vec<f32> =
                (0..columns * inner).map(|at| self.right[at % inner * columns + at / inner]).collect();
            right.fill_transposed(&turned, columns, Window::whole(inner));
        } else {
            right.fill(&self.right, inner, Window::whole(columns));
        }
        let window = Window { offset: 2, width: columns, stride: columns + 3 };
        let mut out = vec![99.0; rows * window.stride];
        Multiply { left: &left, right: &right, bias: &self.bias, then: self.then, out: &mut out, window }
            .on(kernel);
        let mut inside = Vec::new();
        for row in out.chunks_exact(window.stride) {
            assert_eq!((row[0], row[1], row[window.stride - 1]), (99.0, 99.0, 99.0));
            inside.extend_from_slice(&row[2..][..columns]);
        }
        inside
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_product_is_what_plain_loops_give(product in product(), transposed: bool) {
        let wanted = product.plain();
        for kernel in Kernel::all() {
            for (found, wanted) in product.on(kernel, transposed).iter().zip(&wanted) {
                let allowed = 2e-6 * (16.0 * product.inner as f64).max(1.0).sqrt() * 8.0;
                prop_assert!((f64::from(*found) - wanted).abs() < allowed, "{kernel:?}: {found} for {wanted}");
            }
        }
    }

    #[test]
    fn rows_are_normalised(x in numbers(3 * 37), more in numbers(3 * 37), weight in numbers(37), bias in numbers(37)) {
        let norm = Norm { weight, bias, epsilon: 1e-12 };
        for kernel in Kernel::all() {
            let mut found = x.clone();
            norm.add_and_normalize(kernel, &mut found, &more);
            for row in 0..3 {
                let sums: Vec<f64> = (0..37).map(|at| f64::from(x[row * 37 + at]) + f64::from(more[row * 37 + at])).collect();
                let mean = sums.iter().sum::<f64>() / 37.0;
                let spread = (sums.iter().map(|sum| (sum - mean).powi(2)).sum::<f64>() / 37.0 + 1e-12).sqrt();
                for at in 0..37 {
                    let wanted = (sums[at] - mean) / spread * f64::from(norm.weight[at]) + f64::from(norm.bias[at]);
                    prop_assert!((f64::from(found[row * 37 + at]) - wanted).abs() < 2e-5, "{kernel:?}");
                }
            }
        }
    }

    #[test]
    fn shares_are_a_softmax(scores in numbers(2 * 45), size in prop_oneof![Just(1.0f32), Just(1e4)]) {
        let scores: Vec<f32> = scores.iter().map(|score| score * size).collect();
        for kernel in Kernel::all() {
            let mut found = scores.clone();
            shares(kernel, &mut found, 45, 0.25);
            for (found, scores) in found.chunks(45).zip(scores.chunks(45)) {
                let highest = scores.iter().copied().fold(f32::MIN, f32::max);
                let powers: Vec<f64> = scores.iter().map(|score| (f64::from(score - highest) * 0.25).exp()).collect();
                let total: f64 = powers.iter().sum();
                for (found, power) in found.iter().zip(powers) {
                    prop_assert!((f64::from(*found) - power / total).abs() < 1e-6, "{kernel:?}");
                }
            }
        }
    }
}

/// Each thousandth of what a model can ask for; small results keep their digits too.
#[test]
fn gelu_has_six_digits() {
    for kernel in Kernel::all() {
        let mut values: Vec<f32> = (-12_000..=12_000).map(|step| step as f32 / 1000.0).collect();
        let asked = values.clone();
        kernel.run(Gelu(&mut values));
        for (found, x) in values.into_iter().zip(asked) {
            let wanted = plain_gelu(f64::from(x));
            let off = (f64::from(found) - wanted).abs();
            assert!(
                off <= 3e-6 * wanted.abs() || off < 1e-30,
                "{kernel:?}: gelu({x}) is {wanted:e}, not {found:e}"
            );
        }
    }
}

#[test]
fn what_is_no_number_stays_none() {
    for kernel in Kernel::all() {
        let mut values = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN];
        kernel.run(Gelu(&mut values));
        assert!(values[0].is_nan() && values[1] == f32::INFINITY && values[3] == f32::MAX, "{values:?}");
    }
}

struct Gelu<'a>(&'a mut [f32]);

impl Work for Gelu<'_> {
    #[inline(always)]
    fn run<A: Arithmetic>(self) {
        self.0.iter_mut().for_each(|x| *x = super::gelu::gelu::<A>(*x));
    }
}

fn plain_gelu(x: f64) -> f64 {
    x * if x < 0.0 { plain_tail(-x) } else { 1.0 - plain_tail(x) }
}

/// The probability of more than `x`: the series where it is good, a continued fraction beyond.
fn plain_tail(x: f64) -> f64 {
    let density = (-0.5 * x * x).exp() / std::f64::consts::TAU.sqrt();
    if x < 3.0 {
        let (mut term, mut sum, mut odd) = (x, x, 1.0);
        while term > 1e-18 {
            odd += 2.0;
            term *= x * x / odd;
            sum += term;
        }
        0.5 - density * sum
    } else {
        density / (1..200).rev().fold(x, |rest, step| x + f64::from(step) / rest)
    }
}
