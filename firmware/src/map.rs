//! Where everything is: for the VMM, and for the ROM as symbols.

/// Bytes of the ROM.
pub const ROM_SIZE: u64 = 0x1000;
/// Physical address of the ROM: it ends where the address space of 32 bits does, with the reset
/// vector in its last 16 bytes.
pub const ROM: u64 = 0xFFFF_F000;
/// The copy of the ROM that runs, in RAM. Its page is the vector of the start-up IPIs.
pub const SHADOW: u64 = 0xF_1000;
/// The handover block.
pub const HANDOVER: u64 = 0xF_2000;
/// Bytes for the handover block, with all that it points to.
pub const HANDOVER_SIZE: u64 = 0x1000;
/// Variables and stacks.
pub const SCRATCH: u64 = 0xF_3000;
/// Bytes for variables and stacks.
pub const SCRATCH_SIZE: u64 = 0x1000;

/// Fields of the handover block, as offsets.
pub mod field {
    /// 32 bits: [`super::REAL`], [`super::PROTECTED`] or [`super::LONG`].
    pub const MODE: u64 = 0x00;
    /// 32 bits: number of processors.
    pub const PROCESSORS: u64 = 0x04;
    /// 32 bits: address of the rows of PMU registers.
    pub const REGISTERS: u64 = 0x08;
    /// 32 bits: their number.
    pub const REGISTER_COUNT: u64 = 0x0C;
    /// 32 bits: address of the rows of model-specific registers to set.
    pub const MSRS: u64 = 0x10;
    /// 32 bits: their number.
    pub const MSR_COUNT: u64 = 0x14;
    /// 32 bits: address of the machine's name, which ends with a NUL.
    pub const TITLE: u64 = 0x18;
    /// 16 bits: selector for CS.
    pub const CS: u64 = 0x20;
    /// 16 bits: selector for DS, ES, FS and GS.
    pub const DATA: u64 = 0x22;
    /// 16 bits: selector for TR; not in real mode.
    pub const TR: u64 = 0x24;
    /// 32 bits: CR0.
    pub const CR0: u64 = 0x28;
    /// 32 bits: CR3.
    pub const CR3: u64 = 0x2C;
    /// 32 bits: CR4.
    pub const CR4: u64 = 0x30;
    /// 32 bits: EFER, without LMA, which sets itself.
    pub const EFER: u64 = 0x34;
    /// Limit of 16 bits and base of 64: the operand of LGDT.
    pub const GDTR: u64 = 0x40;
    /// The same for LIDT.
    pub const IDTR: u64 = 0x50;
    /// 64 bits: RIP.
    pub const RIP: u64 = 0x60;
    /// EIP and CS: operand of a far jump of 32-bit code.
    pub const FAR32: u64 = 0x68;
    /// IP and CS: operand of a far jump of 16-bit code.
    pub const FAR16: u64 = 0x70;
    /// ESP and SS: operand of LSS.
    pub const STACK: u64 = 0x78;
    /// 16 times 64 bits: RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8 to R15.
    pub const GPR: u64 = 0x80;
    /// End of the fields.
    pub const END: u64 = 0x100;
}

/// Real mode.
pub const REAL: u32 = 0;
/// 32-bit protected mode.
pub const PROTECTED: u32 = 1;
/// 64-bit mode.
pub const LONG: u32 = 2;

/// A row of PMU registers, as offsets.
pub mod register {
    /// 32 bits: number of the register.
    pub const INDEX: u64 = 0;
    /// 32 bits: 1 if RDMSR raises #GP, or else 0.
    pub const FAULTS: u64 = 4;
    /// 64 bits: what RDMSR reads after power-up.
    pub const RESET: u64 = 8;
    /// The name, which ends with a NUL.
    pub const NAME: u64 = 16;
    /// Bytes of a row.
    pub const SIZE: u64 = 48;
}

/// What the assembler knows of this file.
pub const SYMBOLS: [(&str, u64); 34] = [
    ("SHADOW", SHADOW),
    ("ROM_SIZE", ROM_SIZE),
    ("SCRATCH", SCRATCH),
    ("SCRATCH_END", SCRATCH + SCRATCH_SIZE),
    ("MODE", HANDOVER + field::MODE),
    ("PROCESSORS", HANDOVER + field::PROCESSORS),
    ("REGISTERS", HANDOVER + field::REGISTERS),
    ("REGISTER_COUNT", HANDOVER + field::REGISTER_COUNT),
    ("MSRS", HANDOVER + field::MSRS),
    ("MSR_COUNT", HANDOVER + field::MSR_COUNT),
    ("TITLE", HANDOVER + field::TITLE),
    ("NEW_CS", HANDOVER + field::CS),
    ("NEW_DATA", HANDOVER + field::DATA),
    ("NEW_TR", HANDOVER + field::TR),
    ("NEW_CR0", HANDOVER + field::CR0),
    ("NEW_CR3", HANDOVER + field::CR3),
    ("NEW_CR4", HANDOVER + field::CR4),
    ("NEW_EFER", HANDOVER + field::EFER),
    ("NEW_GDTR", HANDOVER + field::GDTR),
    ("NEW_IDTR", HANDOVER + field::IDTR),
    ("NEW_RIP", HANDOVER + field::RIP),
    ("FAR32", HANDOVER + field::FAR32),
    ("FAR16", HANDOVER + field::FAR16),
    ("NEW_STACK", HANDOVER + field::STACK),
    ("NEW_GPR", HANDOVER + field::GPR),
    ("REAL", REAL as u64),
    ("PROTECTED", PROTECTED as u64),
    ("LONG", LONG as u64),
    ("ROW_INDEX", register::INDEX),
    ("ROW_FAULTS", register::FAULTS),
    ("ROW_RESET", register::RESET),
    ("ROW_NAME", register::NAME),
    ("ROW_SIZE", register::SIZE),
    ("ROM_OFFSET", ROM & 0xFFFF),
];
