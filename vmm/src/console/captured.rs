//! A console in memory, for who runs a guest in this process and reads what it prints.

use std::cell::RefCell;
use std::io::{self, Write};
use std::rc::Rc;

use super::Console;

/// What guests have printed on the consoles of this, one behind the other.
#[derive(Clone, Debug, Default)]
pub struct Captured(Rc<RefCell<Vec<u8>>>);

impl Captured {
    /// A console whose output goes here; no input.
    #[must_use]
    pub fn console(&self) -> Console {
        Console::to("memory".into(), Box::new(self.clone()))
    }

    /// What has been printed so far, without carriage returns; what is no UTF-8 is U+FFFD.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.borrow()).replace('\r', "")
    }
}

impl Write for Captured {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
