//! Guests that come with the program: assembled when asked for, run without any file.

use iced_x86::IcedError;

use crate::program::Image;

mod console;
mod part;
mod sampling;

pub use console::Console;
pub use part::Part;
pub use sampling::sampling;

/// A guest that `vpmu run --demo NAME` runs.
#[derive(Clone, Copy, Debug)]
pub struct Demo {
    /// The name on the command line.
    pub name: &'static str,
    /// What it shows, in one line.
    pub about: &'static str,
    /// Assembles it for a part.
    pub build: fn(&Part) -> Result<Image, IcedError>,
}

/// All demos.
pub const ALL: &[Demo] = &[Demo {
    name: "sampling",
    about: "samples four functions by performance-monitoring interrupts and prints where time goes",
    build: sampling,
}];

/// The demo called `name`.
pub fn find(name: &str) -> Option<&'static Demo> {
    ALL.iter().find(|demo| demo.name == name)
}
