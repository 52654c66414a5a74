//! The suite on the reference store, which needs nothing else.

use windlass_testkit::memory::MemorySubject;

windlass_testkit::conformance!(MemorySubject);
