//! Where lines go.

use std::io::Write;

/// Where lines go. One that cannot be written must not stop the work.
pub trait Out: Send + Sync + 'static {
    /// Writes a line, which ends with its line break.
    fn write(&self, line: &str);
}

impl Out for std::io::Stdout {
    fn write(&self, line: &str) {
        // Nobody reads on: the work is done all the same.
        let _ = self.lock().write_all(line.as_bytes());
    }
}

impl Out for std::io::Stderr {
    fn write(&self, line: &str) {
        // Nobody reads on: the work is done all the same.
        let _ = self.lock().write_all(line.as_bytes());
    }
}
