//! The operations that AMD's decoders make, for the tables of K7 and K8: a macro-operation is an operation
//! of the integer or floating-point unit, with the load and the store that go with it.

use crate::pipeline::out_of_order::{Blocking, MacroOp, MicroOp, Role, Units};

/// The ALU of the first lane; those of the others are the bits above.
const ALU: Units = 1 << 0;
/// The AGU of the first lane.
const AGU: Units = 1 << 3;
/// The add pipe.
pub(super) const FADD: Units = 1 << 6;
/// The multiply pipe.
pub(super) const FMUL: Units = 1 << 7;
/// The store pipe, which does conversions and what is left.
pub(super) const FSTORE: Units = 1 << 8;
/// The add or the multiply pipe.
pub(super) const FADDMUL: Units = FADD | FMUL;
/// Any pipe.
pub(super) const FANY: Units = FADD | FMUL | FSTORE;

/// Cycles from the issue of a load to its data: AMD 22007E page 151, table 6.
const LOAD_CYCLES: u16 = 3;

const fn alu(latency: u16) -> MicroOp {
    MicroOp::new(Role::Operate, ALU, latency).in_lane()
}

const fn pipe(units: Units, latency: u16) -> MicroOp {
    MicroOp::new(Role::Operate, units, latency).in_float()
}

const fn half(units: Units, latency: u16) -> MicroOp {
    MicroOp::new(Role::Half, units, latency).in_float()
}

const LOAD: MicroOp = MicroOp::new(Role::Load, AGU, LOAD_CYCLES).in_lane();
const STORE_ADDRESS: MicroOp = MicroOp::new(Role::StoreAddress, AGU, 1).in_lane();
/// The address of a store that goes where a load came from: the AGU has computed it.
const SAME_ADDRESS: MicroOp = MicroOp::new(Role::StoreAddress, 0, 1);
const STORE_DATA: MicroOp = MicroOp::new(Role::StoreData, 0, 0);
const POINTER: MicroOp = MicroOp::new(Role::Pointer, ALU, 1).in_lane();

/// A step of microcode.
pub(super) const STEP: MacroOp = MacroOp::new(&[MicroOp::new(Role::Step, ALU, 1).in_lane()]);

/// No operation: it takes a place and no unit.
pub(super) const NOTHING: &[MacroOp] = &[MacroOp::new(&[])];
/// A load.
pub(super) const LOADS: &[MacroOp] = &[MacroOp::new(&[LOAD])];
/// A store.
pub(super) const STORES: &[MacroOp] = &[MacroOp::new(&[STORE_ADDRESS, STORE_DATA])];
/// A store of what an ALU computes.
pub(super) const ALU_STORES: &[MacroOp] = &[MacroOp::new(&[STORE_ADDRESS, alu(1), STORE_DATA])];
/// A load and a store, as of a string.
pub(super) const COPIES: &[MacroOp] =
    &[MacroOp::new(&[LOAD]), MacroOp::new(&[STORE_ADDRESS, STORE_DATA])];
/// A push of a register.
pub(super) const PUSHES: &[MacroOp] = &[MacroOp::new(&[STORE_ADDRESS, POINTER, STORE_DATA])];
/// A push of what is loaded.
pub(super) const PUSHES_MEMORY: &[MacroOp] =
    &[MacroOp::new(&[LOAD]), MacroOp::new(&[STORE_ADDRESS, POINTER, STORE_DATA])];
/// A pop into a register.
pub(super) const POPS: &[MacroOp] = &[MacroOp::new(&[LOAD]), MacroOp::new(&[POINTER])];
/// LEAVE: the frame pointer is loaded from where it pointed, and the stack pointer computed from it.
pub(super) const LEAVES: &[MacroOp] = &[MacroOp::new(&[LOAD]), MacroOp::new(&[alu(1)])];
/// A pop into memory.
pub(super) const POPS_MEMORY: &[MacroOp] =
    &[MacroOp::new(&[LOAD]), MacroOp::new(&[POINTER]), MacroOp::new(&[STORE_ADDRESS, STORE_DATA])];
/// A near call: the return address is stored, then the ALU jumps.
pub(super) const CALLS: &[MacroOp] =
    &[MacroOp::new(&[STORE_ADDRESS, POINTER, STORE_DATA]), MacroOp::new(&[alu(1)])];
/// A near call of an address in memory.
pub(super) const CALLS_MEMORY: &[MacroOp] = &[
    MacroOp::new(&[LOAD]),
    MacroOp::new(&[STORE_ADDRESS, POINTER, STORE_DATA]),
    MacroOp::new(&[alu(1)]),
];
/// A near return.
pub(super) const RETURNS: &[MacroOp] = &[MacroOp::new(&[LOAD, alu(1)]), MacroOp::new(&[POINTER])];
/// FXCH: an operation in any floating-point pipe that nothing waits for, and an exchange of names.
pub(super) const EXCHANGES: &[MacroOp] = &[MacroOp::new(&[
    MicroOp::new(Role::Step, FANY, 2).in_float(),
    MicroOp::new(Role::Exchange, 0, 0),
])];
/// Eight registers are pushed.
pub(super) const PUSHES_ALL: &[MacroOp] = &[MacroOp::new(&[STORE_ADDRESS, STORE_DATA]); 8];
/// Eight registers are popped.
pub(super) const POPS_ALL: &[MacroOp] = &[MacroOp::new(&[LOAD]); 8];

/// Computations of the AGU that take `LATENCY` cycles (LEA).
pub(super) struct Address<const LATENCY: u16>;

impl<const LATENCY: u16> Address<LATENCY> {
    /// The operation.
    pub(super) const OPERATIONS: &[MacroOp] =
        &[MacroOp::new(&[MicroOp::new(Role::Address, AGU, LATENCY).in_lane()])];
}

/// Operations of an ALU that take `LATENCY` cycles.
pub(super) struct Alu<const LATENCY: u16>;

impl<const LATENCY: u16> Alu<LATENCY> {
    /// On registers.
    pub(super) const REGISTER: &[MacroOp] = &[MacroOp::new(&[alu(LATENCY)])];
    /// With a source in memory.
    pub(super) const SOURCE: &[MacroOp] = &[MacroOp::new(&[LOAD, alu(LATENCY)])];
    /// With a destination in memory that is also a source.
    pub(super) const DESTINATION: &[MacroOp] =
        &[MacroOp::new(&[LOAD, SAME_ADDRESS, alu(LATENCY), STORE_DATA])];
    /// Two operations, one behind the other, of `LATENCY` cycles together.
    pub(super) const TWO: &[MacroOp] =
        &[MacroOp::new(&[alu(LATENCY - 1)]), MacroOp::new(&[alu(1)])];
    /// The same with a source in memory.
    pub(super) const TWO_SOURCE: &[MacroOp] =
        &[MacroOp::new(&[LOAD, alu(LATENCY - 1)]), MacroOp::new(&[alu(1)])];
    /// On registers, in the divider.
    pub(super) const DIVIDE: &[MacroOp] =
        &[MacroOp::new(&[alu(LATENCY).blocks(Blocking::Divider, LATENCY)])];
    /// In the divider, with a source in memory.
    pub(super) const DIVIDE_SOURCE: &[MacroOp] =
        &[MacroOp::new(&[LOAD, alu(LATENCY).blocks(Blocking::Divider, LATENCY)])];
}

/// Operations of the floating-point pipes `PIPES` that take `LATENCY` cycles.
pub(super) struct Float<const PIPES: Units, const LATENCY: u16>;

impl<const PIPES: Units, const LATENCY: u16> Float<PIPES, LATENCY> {
    /// On registers.
    pub(super) const REGISTER: &[MacroOp] = &[MacroOp::new(&[pipe(PIPES, LATENCY)])];
    /// With a source in memory.
    pub(super) const SOURCE: &[MacroOp] = &[MacroOp::new(&[LOAD, pipe(PIPES, LATENCY)])];
    /// Into memory.
    pub(super) const STORE: &[MacroOp] =
        &[MacroOp::new(&[STORE_ADDRESS, pipe(PIPES, LATENCY), STORE_DATA])];
    /// Of both 64-bit halves, on registers. The second half begins a cycle behind the first, if there is
    /// one pipe for both.
    pub(super) const HALVES: &[MacroOp] =
        &[MacroOp::new(&[pipe(PIPES, LATENCY)]), MacroOp::new(&[half(PIPES, LATENCY)])];
    /// Of both halves, with a source in memory.
    pub(super) const HALVES_SOURCE: &[MacroOp] =
        &[MacroOp::new(&[LOAD, pipe(PIPES, LATENCY)]), MacroOp::new(&[LOAD, half(PIPES, LATENCY)])];
    /// Both halves into memory.
    pub(super) const HALVES_STORE: &[MacroOp] = &[
        MacroOp::new(&[STORE_ADDRESS, pipe(PIPES, LATENCY), STORE_DATA]),
        MacroOp::new(&[STORE_ADDRESS, pipe(PIPES, LATENCY), STORE_DATA]),
    ];
}

/// Divisions and square roots of the multiply pipe that take `LATENCY` cycles and keep the divider busy
/// for `BUSY`.
pub(super) struct Root<const LATENCY: u16, const BUSY: u16>;

impl<const LATENCY: u16, const BUSY: u16> Root<LATENCY, BUSY> {
    const OPERATION: MicroOp = pipe(FMUL, LATENCY).blocks(Blocking::Divider, BUSY);
    const HALF: MicroOp = half(FMUL, LATENCY - BUSY).blocks(Blocking::Divider, BUSY);

    /// On registers.
    pub(super) const REGISTER: &[MacroOp] = &[MacroOp::new(&[Self::OPERATION])];
    /// With a source in memory.
    pub(super) const SOURCE: &[MacroOp] = &[MacroOp::new(&[LOAD, Self::OPERATION])];
    /// Of both halves, which take `LATENCY` together, on registers.
    pub(super) const HALVES: &[MacroOp] =
        &[MacroOp::new(&[Self::HALF]), MacroOp::new(&[Self::HALF])];
    /// Of both halves, with a source in memory.
    pub(super) const HALVES_SOURCE: &[MacroOp] =
        &[MacroOp::new(&[LOAD, Self::HALF]), MacroOp::new(&[LOAD, Self::HALF])];
}
