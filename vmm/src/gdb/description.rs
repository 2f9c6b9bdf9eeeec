//! The target description: what gdb is told of the processors' registers, in XML (gdb's manual, "Target
//! Description Format").

use std::fmt::Write;

use super::registers::{Feature, Width};

/// The document `target.xml`.
pub(super) fn target(width: Width, features: &[Feature]) -> String {
    let architecture = match width {
        Width::Bits32 => "i386",
        Width::Bits64 => "i386:x86-64",
    };
    let mut xml =
        String::from("<?xml version=\"1.0\"?>\n<!DOCTYPE target SYSTEM \"gdb-target.dtd\">\n");
    // Writing to a string does not fail.
    let _ = writeln!(xml, "<target>\n  <architecture>{architecture}</architecture>");
    for Feature { name, types, registers } in features {
        let _ = writeln!(xml, "  <feature name=\"{name}\">{types}");
        for register in registers {
            let (name, bits, kind) = (&register.name, register.bits, register.kind);
            let _ = writeln!(xml, "    <reg name=\"{name}\" bitsize=\"{bits}\" type=\"{kind}\"/>");
        }
        xml.push_str("  </feature>\n");
    }
    xml.push_str("</target>\n");
    xml
}
