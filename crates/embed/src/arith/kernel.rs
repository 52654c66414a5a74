//! Which instructions the arithmetic is compiled to. This is the only file with `unsafe` in it.
//!
//! The loops themselves are plain Rust over arrays of fixed size, written once. They are compiled twice:
//! for any processor, and for one with AVX2 and FMA, where the compiler turns them into exactly the vector
//! code that one would write by hand. What runs is decided when a model is loaded.

/// A set of instructions that this processor has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kernel {
    /// What every processor of this architecture has.
    Portable,
    /// 256-bit vectors with fused multiplication and addition.
    #[cfg(target_arch = "x86_64")]
    Avx2(HasAvx2),
}

/// The proof that the processor was asked and said yes: only `all` makes one.
#[cfg(target_arch = "x86_64")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct HasAvx2(());

/// Some loops over numbers, to be compiled for each set of instructions.
/// Everything below `run` has to be `#[inline(always)]`: a function that stays apart keeps the portable code.
pub(crate) trait Work {
    /// Does it, with the arithmetic `A`.
    fn run<A: Arithmetic>(self);
}

/// What differs between the sets of instructions and matters for the result.
pub(crate) trait Arithmetic {
    /// `a * b + c`.
    fn mul_add(a: f32, b: f32, c: f32) -> f32;
}

struct Fused;
struct Plain;

impl Arithmetic for Fused {
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a.mul_add(b, c)
    }
}

impl Arithmetic for Plain {
    /// Without the instruction, `f32::mul_add` is a call of a slow function.
    #[inline(always)]
    fn mul_add(a: f32, b: f32, c: f32) -> f32 {
        a * b + c
    }
}

impl Kernel {
    /// The fastest that this processor can run.
    pub(crate) fn detect() -> Kernel {
        Kernel::all().pop().unwrap_or(Kernel::Portable)
    }

    /// All that this processor can run, the fastest last.
    pub(crate) fn all() -> Vec<Kernel> {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
            return vec![Kernel::Portable, Kernel::Avx2(HasAvx2(()))];
        }
        vec![Kernel::Portable]
    }

    /// Does the work with these instructions.
    #[inline]
    pub(crate) fn run(self, work: impl Work) {
        match self {
            Kernel::Portable => portable(work),
            #[cfg(target_arch = "x86_64")]
            // SAFETY: `HasAvx2` exists only after the processor was found to have both features.
            Kernel::Avx2(HasAvx2(())) => unsafe { avx2(work) },
        }
    }
}

/// On ARM the fused instruction belongs to what every processor has.
#[inline(never)]
fn portable(work: impl Work) {
    if cfg!(target_arch = "aarch64") { work.run::<Fused>() } else { work.run::<Plain>() }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma")]
#[inline(never)]
fn avx2(work: impl Work) {
    work.run::<Fused>();
}
