//! Settings: one table says what there is, and from it come the help, the
//! guide and the reading.

mod file;
mod guide;
mod help;
mod reading;
mod setting;

pub use file::env_file;
pub(crate) use file::quoted;
pub use guide::hold_guide;
pub use help::help;
pub use reading::{Reading, SettingsError};
pub use setting::{Setting, Unset, problems};
