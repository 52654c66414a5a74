//! Values that must never be printed: secrets, and what is known of patients.

use std::fmt;

/// A password, key or token. It has no `Display`, and `Debug` hides it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret<T>(T);

/// Something about a person's health: a transcript, an analysis, a name.
///
/// It is a type of its own beside [`Secret`] because it is handled otherwise:
/// a secret belongs to the operator and is sent to its own host only, health
/// data belongs to the patient and may be stored, but never logged.
#[derive(Clone, PartialEq, Eq)]
pub struct Phi<T>(T);

macro_rules! hidden {
    ($name:ident) => {
        impl<T> $name<T> {
            /// Wraps a value.
            pub const fn new(value: T) -> Self {
                Self(value)
            }

            /// The value itself. Whoever calls this answers for where it goes.
            pub const fn expose(&self) -> &T {
                &self.0
            }

            /// Takes the value out of its wrapper.
            pub fn into_exposed(self) -> T {
                self.0
            }

            /// Wraps what `change` makes of the value.
            pub fn map<U>(self, change: impl FnOnce(T) -> U) -> $name<U> {
                $name(change(self.0))
            }
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(concat!(stringify!($name), "(hidden)"))
            }
        }
    };
}

hidden!(Secret);
hidden!(Phi);

#[cfg(test)]
mod tests {
    use super::*;

    /// Faults 71 and 72: printing shows nothing of the content.
    #[test]
    fn fault_71_72_hidden_values_are_not_printed() {
        let printed = format!("{:?} {:#?}", Secret::new("canary"), Phi::new(vec!["canary"]));
        assert_eq!(printed, "Secret(hidden) Phi(hidden)");
        assert_eq!(Phi::new("a").map(str::len).into_exposed(), 1);
    }
}
