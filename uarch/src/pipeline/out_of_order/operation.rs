//! What decoders make of an instruction: macro-operations, and the micro-operations in them.

use super::plain::Plain;

/// Execution units or issue ports: a bit each. What a bit stands for is the part's.
pub type Units = u16;

/// What a micro-operation does with the operands of its instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Computes an address and loads from it. What comes is an operand of the operations behind it.
    Load,
    /// Computes on the register operands and on what came before it in the instruction.
    Operate,
    /// Computes what [`Role::Operate`] before it does, of another half of the operands: it waits for
    /// the operands and loads, not for the first half.
    Half,
    /// Computes an address, which is the result (LEA).
    Address,
    /// Computes the address of a store.
    StoreAddress,
    /// Hands over the data of a store.
    StoreData,
    /// Adds to the stack pointer, and to nothing else.
    Pointer,
    /// A step of microcode: takes up its unit, and nothing waits for it but retirement.
    Step,
    /// Two registers exchange their names (FXCH).
    Exchange,
}

/// A unit that is not pipelined, beside the unit or port that starts its operations. It takes them in
/// program order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Blocking {
    /// All its units are pipelined.
    None,
    /// The divider, of integers or of floating-point numbers, and of square roots.
    Divider,
    /// A multiplier that does not start a multiplication in every cycle.
    Multiplier,
}

impl Blocking {
    /// How many values there are.
    pub(super) const COUNT: usize = 3;
}

/// A step of execution that one unit performs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MicroOp {
    /// What it does with the operands.
    pub role: Role,
    /// The units or ports that can start it, of which it takes one for one cycle; none if it needs no
    /// unit.
    pub units: Units,
    /// The units are those of the first lane; the operation is issued to the units of the lane that
    /// it was decoded in.
    pub lane: bool,
    /// It waits in the scheduler of the floating-point unit.
    pub float: bool,
    /// Cycles until what it computes can be used; for a load, if it hits the data cache.
    pub latency: u16,
    /// The unit that is not pipelined which it needs.
    pub blocking: Blocking,
    /// Cycles that it keeps that unit busy.
    pub occupancy: u16,
}

impl MicroOp {
    /// A micro-operation on one of the units.
    #[must_use]
    pub const fn new(role: Role, units: Units, latency: u16) -> Self {
        Self {
            role,
            units,
            lane: false,
            float: false,
            latency,
            blocking: Blocking::None,
            occupancy: 0,
        }
    }

    /// The same, issued within its lane.
    #[must_use]
    pub const fn in_lane(self) -> Self {
        Self { lane: true, ..self }
    }

    /// The same, of the floating-point unit.
    #[must_use]
    pub const fn in_float(self) -> Self {
        Self { float: true, ..self }
    }

    /// The same with another latency.
    #[must_use]
    pub const fn taking(self, latency: u16) -> Self {
        Self { latency, ..self }
    }

    /// The same, which keeps a unit busy that is not pipelined.
    #[must_use]
    pub const fn blocks(self, blocking: Blocking, occupancy: u16) -> Self {
        Self { blocking, occupancy, ..self }
    }
}

/// What takes one place in the reorder buffer: a macro-operation of AMD's processors, a
/// micro-operation of Intel's, or two that are fused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacroOp {
    /// Its micro-operations.
    pub parts: &'static [MicroOp],
    /// One of them waits in a scheduler for integer operations.
    pub integer: bool,
    /// One of them waits in the scheduler of the floating-point unit.
    pub float: bool,
    /// Loads.
    pub loads: u8,
    /// Stores, by their addresses.
    pub stores: u8,
    /// The same micro-operations, if there is nothing special about them.
    pub(super) plain: Option<Plain>,
}

impl MacroOp {
    /// Of these micro-operations.
    #[must_use]
    pub const fn new(parts: &'static [MicroOp]) -> Self {
        let plain = Plain::new(parts);
        let mut made = Self { parts, integer: false, float: false, loads: 0, stores: 0, plain };
        let mut n = 0;
        while n < parts.len() {
            let part = &parts[n];
            if part.units != 0 {
                made.float |= part.float;
                made.integer |= !part.float;
            }
            match part.role {
                Role::Load => made.loads += 1,
                Role::StoreAddress => made.stores += 1,
                _ => {}
            }
            n += 1;
        }
        made
    }
}
