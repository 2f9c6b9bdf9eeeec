//! The micro-operations that the decoders of the P6 family and of Pentium M make. In Pentium M's a load and
//! the operation on it, and the two halves of a store, are one fused micro-operation until they are issued
//! (Intel 248966-013 page 1-29); `FUSED` says so.

use crate::pipeline::out_of_order::{Blocking, MacroOp, MicroOp, Role, Units};

/// Port 0: ALU, shifts, multiplication, division, x87.
pub(super) const P0: Units = 1 << 0;
/// Port 1: ALU, jumps, SSE additions and shuffles.
pub(super) const P1: Units = 1 << 1;
/// Either.
pub(super) const P01: Units = P0 | P1;
/// Port 2: loads.
const P2: Units = 1 << 2;
/// Port 3: addresses of stores.
const P3: Units = 1 << 3;
/// Port 4: data of stores.
const P4: Units = 1 << 4;

/// Cycles from the issue of a load to its data. Secondary sources have 3 for Pentium II; gcc's ppro.md
/// has 4 for a move from memory.
const LOAD_CYCLES: u16 = 3;

const fn on(ports: Units, latency: u16) -> MicroOp {
    MicroOp::new(Role::Operate, ports, latency)
}

const LOAD: MicroOp = MicroOp::new(Role::Load, P2, LOAD_CYCLES);
const STORE_ADDRESS: MicroOp = MicroOp::new(Role::StoreAddress, P3, 1);
const STORE_DATA: MicroOp = MicroOp::new(Role::StoreData, P4, 1);
const POINTER: MicroOp = MicroOp::new(Role::Pointer, P01, 1);

const fn alone(operation: &'static [MicroOp; 1]) -> MacroOp {
    MacroOp::new(operation)
}

/// A step of microcode.
pub(super) const STEP: MacroOp = MacroOp::new(&[MicroOp::new(Role::Step, P01, 1)]);
const LOADED: MacroOp = alone(&[LOAD]);
const ADDRESSED: MacroOp = alone(&[STORE_ADDRESS]);
const STORED: MacroOp = alone(&[STORE_DATA]);
const BOTH: MacroOp = MacroOp::new(&[STORE_ADDRESS, STORE_DATA]);
const ADDED: MacroOp = alone(&[POINTER]);
const JUMPED: MacroOp = alone(&[on(P1, 1)]);
const SECOND: MacroOp = MacroOp::new(&[on(P01, 1)]);

/// A micro-operation that nothing waits for: NOP.
pub(super) const NOTHING: &[MacroOp] = &[STEP];
/// FXCH: no port, an exchange of names (Fog 29.2, note f).
pub(super) const EXCHANGES: &[MacroOp] = &[MacroOp::new(&[MicroOp::new(Role::Exchange, 0, 0)])];
/// A load.
pub(super) const LOADS: &[MacroOp] = &[LOADED];
/// Two loads, of halves.
pub(super) const LOADS_HALVES: &[MacroOp] = &[LOADED, LOADED];
/// Eight loads (POPA), which the microcode adds the stack pointer to.
pub(super) const LOADS_ALL: &[MacroOp] = &[LOADED; 8];
/// Eight stores (PUSHA).
pub(super) const STORES_ALL: &[MacroOp] = &[
    ADDRESSED, STORED, ADDRESSED, STORED, ADDRESSED, STORED, ADDRESSED, STORED, ADDRESSED, STORED,
    ADDRESSED, STORED, ADDRESSED, STORED, ADDRESSED, STORED,
];

/// PUSH of a register or constant, where the decoder does not keep the stack pointer.
pub(super) const PUSHES: &[MacroOp] = &[ADDED, ADDRESSED, STORED];
/// PUSH of memory.
pub(super) const PUSHES_MEMORY: &[MacroOp] = &[LOADED, ADDED, ADDRESSED, STORED];
/// POP of a register.
pub(super) const POPS: &[MacroOp] = &[LOADED, ADDED];
/// CALL.
pub(super) const CALLS: &[MacroOp] = &[ADDED, ADDRESSED, STORED, JUMPED];
/// CALL of an address in memory.
pub(super) const CALLS_MEMORY: &[MacroOp] = &[LOADED, ADDED, ADDRESSED, STORED, JUMPED];
/// RET.
pub(super) const RETURNS: &[MacroOp] = &[LOADED, ADDED, JUMPED];

/// PUSH where the decoder keeps the stack pointer.
pub(super) const PUSHES_FOLDED: &[MacroOp] = &[BOTH];
/// PUSH of memory there.
pub(super) const PUSHES_MEMORY_FOLDED: &[MacroOp] = &[LOADED, BOTH];
/// CALL there.
pub(super) const CALLS_FOLDED: &[MacroOp] = &[BOTH, JUMPED];
/// CALL of an address in memory there.
pub(super) const CALLS_MEMORY_FOLDED: &[MacroOp] = &[LOADED, BOTH, JUMPED];
/// RET there: a load and a jump.
pub(super) const RETURNS_FOLDED: &[MacroOp] = &[MacroOp::new(&[LOAD, on(P1, 1)])];

/// Stores.
pub(super) struct Store<const FUSED: bool>;

impl<const FUSED: bool> Store<FUSED> {
    /// Of a register.
    pub(super) const REGISTER: &[MacroOp] =
        if FUSED { const { &[BOTH] } } else { const { &[ADDRESSED, STORED] } };
    /// Of two halves.
    pub(super) const HALVES: &[MacroOp] = if FUSED {
        const { &[BOTH, BOTH] }
    } else {
        const { &[ADDRESSED, STORED, ADDRESSED, STORED] }
    };
    /// A load and a store of it, as of a string.
    pub(super) const COPY: &[MacroOp] =
        if FUSED { const { &[LOADED, BOTH] } } else { const { &[LOADED, ADDRESSED, STORED] } };
}

/// Operations on `PORTS` that take `LATENCY` cycles.
pub(super) struct Op<const FUSED: bool, const PORTS: Units, const LATENCY: u16>;

impl<const FUSED: bool, const PORTS: Units, const LATENCY: u16> Op<FUSED, PORTS, LATENCY> {
    const ONE: MacroOp = MacroOp::new(&[on(PORTS, LATENCY)]);
    const FUSED: MacroOp = MacroOp::new(&[LOAD, on(PORTS, LATENCY)]);
    const FIRST: MacroOp = MacroOp::new(&[on(PORTS, LATENCY - 1)]);
    const FUSED_FIRST: MacroOp = MacroOp::new(&[LOAD, on(PORTS, LATENCY - 1)]);
    const HALF: MacroOp = MacroOp::new(&[MicroOp::new(Role::Half, PORTS, LATENCY)]);

    /// On registers.
    pub(super) const REGISTER: &[MacroOp] = &[Self::ONE];
    /// With a source in memory.
    pub(super) const SOURCE: &[MacroOp] =
        if FUSED { const { &[Self::FUSED] } } else { const { &[LOADED, Self::ONE] } };
    /// With a destination in memory that is also a source.
    pub(super) const DESTINATION: &[MacroOp] = if FUSED {
        const { &[Self::FUSED, BOTH] }
    } else {
        const { &[LOADED, Self::ONE, ADDRESSED, STORED] }
    };
    /// Into memory.
    pub(super) const STORE: &[MacroOp] = if FUSED {
        const { &[Self::ONE, BOTH] }
    } else {
        const { &[Self::ONE, ADDRESSED, STORED] }
    };
    /// Two, one behind the other, of `LATENCY` cycles together; the second on either ALU.
    pub(super) const TWO: &[MacroOp] = &[Self::FIRST, SECOND];
    /// The same with a source in memory.
    pub(super) const TWO_SOURCE: &[MacroOp] = if FUSED {
        const { &[Self::FUSED_FIRST, SECOND] }
    } else {
        const { &[LOADED, Self::FIRST, SECOND] }
    };
    /// The same with a destination in memory.
    pub(super) const TWO_DESTINATION: &[MacroOp] = if FUSED {
        const { &[Self::FUSED_FIRST, SECOND, BOTH] }
    } else {
        const { &[LOADED, Self::FIRST, SECOND, ADDRESSED, STORED] }
    };
    /// Of two halves, on registers.
    pub(super) const HALVES: &[MacroOp] = &[Self::ONE, Self::HALF];
    /// Of two halves, with a source in memory. SSE operations are not fused with their loads.
    pub(super) const HALVES_SOURCE: &[MacroOp] = &[LOADED, LOADED, Self::ONE, Self::HALF];
    /// An address as the result (LEA).
    pub(super) const ADDRESS: &[MacroOp] =
        &[MacroOp::new(&[MicroOp::new(Role::Address, PORTS, LATENCY)])];
}

/// Operations of port 0 that keep a unit busy: `BUSY` cycles of their `LATENCY`.
pub(super) struct Slow<const FUSED: bool, const LATENCY: u16, const BUSY: u16>;

impl<const FUSED: bool, const LATENCY: u16, const BUSY: u16> Slow<FUSED, LATENCY, BUSY> {
    const DIVISION: MicroOp = on(P0, LATENCY).blocks(Blocking::Divider, BUSY);
    const PRODUCT: MicroOp = on(P0, LATENCY).blocks(Blocking::Multiplier, BUSY);
    const DIVIDES: MacroOp = MacroOp::new(&[Self::DIVISION]);
    const LOADED_DIVISION: MacroOp = MacroOp::new(&[LOAD, Self::DIVISION]);
    const MULTIPLIES: MacroOp = MacroOp::new(&[Self::PRODUCT]);
    const LOADED_PRODUCT: MacroOp = MacroOp::new(&[LOAD, Self::PRODUCT]);

    /// In the divider, on registers.
    pub(super) const DIVIDE: &[MacroOp] = &[Self::DIVIDES];
    /// In the divider, with a source in memory.
    pub(super) const DIVIDE_SOURCE: &[MacroOp] =
        if FUSED { const { &[Self::LOADED_DIVISION] } } else { const { &[LOADED, Self::DIVIDES] } };
    /// In the multiplier, on registers.
    pub(super) const MULTIPLY: &[MacroOp] = &[Self::MULTIPLIES];
    /// In the multiplier, with a source in memory.
    pub(super) const MULTIPLY_SOURCE: &[MacroOp] = if FUSED {
        const { &[Self::LOADED_PRODUCT] }
    } else {
        const { &[LOADED, Self::MULTIPLIES] }
    };
    const HALF: MicroOp = MicroOp::new(Role::Half, P0, LATENCY).blocks(Blocking::Divider, BUSY);
    /// In the divider, of two halves.
    pub(super) const DIVIDE_HALVES: &[MacroOp] =
        &[MacroOp::new(&[Self::HALF]), MacroOp::new(&[Self::HALF])];
    /// In the divider, of two halves in memory.
    pub(super) const DIVIDE_HALVES_SOURCE: &[MacroOp] =
        &[LOADED, LOADED, MacroOp::new(&[Self::HALF]), MacroOp::new(&[Self::HALF])];
}
