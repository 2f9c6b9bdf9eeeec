//! The registers of a processor as gdb sees them: which there are, in which order, and their bytes.
//!
//! gdb's own features (its manual, "i386 Features") have fixed names: `org.gnu.gdb.i386.core`, `.sse` and
//! `.segments`. What a debugger of kernels wants besides is in a feature of ours, and so are the registers of
//! Knights Corner's vector unit: what gdb knows of 512 bits goes with AVX-512, which they are not.

use gdbstub::arch::Arch;
use x86_cpu::control_registers::efer;
use x86_cpu::cpu::Cpu;
use x86_cpu::insn::seg;

/// What gdb takes the processors for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Width {
    /// `i386`.
    Bits32,
    /// `i386:x86-64`.
    Bits64,
}

impl Width {
    /// That of a machine whose processors are these, for as long as gdb stays: 64 bits if one is in long
    /// mode.
    pub(super) fn of<'a>(mut cpus: impl Iterator<Item = &'a Cpu>) -> Self {
        if cpus.any(|cpu| cpu.efer() & efer::LMA != 0) { Self::Bits64 } else { Self::Bits32 }
    }

    fn bits(self) -> usize {
        match self {
            Self::Bits32 => 32,
            Self::Bits64 => 64,
        }
    }
}

/// Where a register is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    General(u8),
    Ip,
    Flags,
    Selector(u8),
    Stack(u8),
    Float(Float),
    Xmm(u8),
    Mxcsr,
    Zmm(u8),
    Mask(u8),
    Base(u8),
    KernelGsBase,
    Control(u8),
    Efer,
    Debug(u8),
    Privilege,
}

/// A register of the x87 beside its stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Float {
    Control,
    Status,
    Tag,
    CodeSelector,
    CodeOffset,
    DataSelector,
    DataOffset,
    Opcode,
}

/// A register.
#[derive(Clone, Debug)]
pub(super) struct Register {
    /// gdb's name.
    pub(super) name: String,
    /// How wide it is to gdb.
    pub(super) bits: usize,
    /// gdb's type.
    pub(super) kind: &'static str,
    place: Place,
}

/// A feature of the target description.
#[derive(Clone, Debug)]
pub(super) struct Feature {
    pub(super) name: &'static str,
    /// Types that registers of it have, in XML.
    pub(super) types: &'static str,
    pub(super) registers: Vec<Register>,
}

const VECTOR: &str = r#"
    <vector id="v4f" type="ieee_single" count="4"/>
    <vector id="v2d" type="ieee_double" count="2"/>
    <vector id="v16i8" type="int8" count="16"/>
    <vector id="v8i16" type="int16" count="8"/>
    <vector id="v4i32" type="int32" count="4"/>
    <vector id="v2i64" type="int64" count="2"/>
    <union id="vec128">
      <field name="v4_float" type="v4f"/>
      <field name="v2_double" type="v2d"/>
      <field name="v16_int8" type="v16i8"/>
      <field name="v8_int16" type="v8i16"/>
      <field name="v4_int32" type="v4i32"/>
      <field name="v2_int64" type="v2i64"/>
      <field name="uint128" type="uint128"/>
    </union>"#;

/// Elements of a vector register as gdb's own types of narrower ones have them, and the bits of VXCSR
/// (`x86/src/vector/state.rs` says from where they are known).
const VECTOR_UNIT: &str = r#"
    <vector id="v16f" type="ieee_single" count="16"/>
    <vector id="v8d" type="ieee_double" count="8"/>
    <vector id="v16i32" type="int32" count="16"/>
    <vector id="v8i64" type="int64" count="8"/>
    <union id="vec512">
      <field name="v16_float" type="v16f"/>
      <field name="v8_double" type="v8d"/>
      <field name="v16_int32" type="v16i32"/>
      <field name="v8_int64" type="v8i64"/>
    </union>
    <flags id="knc_vxcsr" size="4">
      <field name="IE" start="0" end="0"/>
      <field name="DE" start="1" end="1"/>
      <field name="ZE" start="2" end="2"/>
      <field name="OE" start="3" end="3"/>
      <field name="UE" start="4" end="4"/>
      <field name="PE" start="5" end="5"/>
      <field name="DAZ" start="6" end="6"/>
      <field name="IM" start="7" end="7"/>
      <field name="DM" start="8" end="8"/>
      <field name="ZM" start="9" end="9"/>
      <field name="OM" start="10" end="10"/>
      <field name="UM" start="11" end="11"/>
      <field name="PM" start="12" end="12"/>
      <field name="RC" start="13" end="14"/>
      <field name="FZ" start="15" end="15"/>
      <field name="DUE" start="21" end="21"/>
    </flags>"#;

const FLAGS: &str = r#"
    <flags id="x86_flags" size="4">
      <field name="CF" start="0" end="0"/>
      <field name="" start="1" end="1"/>
      <field name="PF" start="2" end="2"/>
      <field name="AF" start="4" end="4"/>
      <field name="ZF" start="6" end="6"/>
      <field name="SF" start="7" end="7"/>
      <field name="TF" start="8" end="8"/>
      <field name="IF" start="9" end="9"/>
      <field name="DF" start="10" end="10"/>
      <field name="OF" start="11" end="11"/>
      <field name="NT" start="14" end="14"/>
      <field name="RF" start="16" end="16"/>
      <field name="VM" start="17" end="17"/>
      <field name="AC" start="18" end="18"/>
      <field name="VIF" start="19" end="19"/>
      <field name="VIP" start="20" end="20"/>
      <field name="ID" start="21" end="21"/>
    </flags>"#;

/// All registers of a processor, in gdb's order.
pub(super) fn features(width: Width, cpu: &Cpu) -> Vec<Feature> {
    let features = cpu.features;
    let mut all =
        vec![Feature { name: "org.gnu.gdb.i386.core", types: FLAGS, registers: core(width) }];
    if features.sse {
        let registers = match width {
            Width::Bits32 => 8,
            Width::Bits64 => 16,
        };
        let xmm = (0..registers).map(|n| register(format!("xmm{n}"), 128, "vec128", Place::Xmm(n)));
        let registers = xmm.chain([register("mxcsr", 32, "int", Place::Mxcsr)]).collect();
        all.push(Feature { name: "org.gnu.gdb.i386.sse", types: VECTOR, registers });
    }
    if features.vpu {
        let zmm = (0..32).map(|n| register(format!("zmm{n}"), 512, "vec512", Place::Zmm(n)));
        let masks = (0..8).map(|n| register(format!("k{n}"), 16, "uint16", Place::Mask(n)));
        let vxcsr = register("vxcsr", 32, "knc_vxcsr", Place::Mxcsr);
        let registers = zmm.chain(masks).chain([vxcsr]).collect();
        all.push(Feature { name: "org.vpmu.vector", types: VECTOR_UNIT, registers });
    }
    if width == Width::Bits64 {
        let base = |name: &str, n| register(name, 64, "int", Place::Base(n));
        let registers = vec![base("fs_base", seg::FS), base("gs_base", seg::GS)];
        all.push(Feature { name: "org.gnu.gdb.i386.segments", types: "", registers });
    }
    all.push(Feature { name: "org.vpmu.system", types: "", registers: system(width, cpu) });
    all
}

fn register(name: impl Into<String>, bits: usize, kind: &'static str, place: Place) -> Register {
    Register { name: name.into(), bits, kind, place }
}

fn core(width: Width) -> Vec<Register> {
    const NAMES: [[&str; 8]; 2] = [
        ["eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi"],
        ["rax", "rbx", "rcx", "rdx", "rsi", "rdi", "rbp", "rsp"],
    ];
    // The processor's numbers of the second row.
    const ORDER: [u8; 8] = [0, 3, 1, 2, 6, 7, 5, 4];
    let bits = width.bits();
    let general = |name: &str, n: u8| {
        let is_pointer = matches!(n, 4 | 5);
        let kind = match (is_pointer, width) {
            (true, _) => "data_ptr",
            (false, Width::Bits32) => "int",
            (false, Width::Bits64) => "int64",
        };
        register(name, bits, kind, Place::General(n))
    };
    let mut all: Vec<_> = match width {
        Width::Bits32 => (0..8).zip(NAMES[0]).map(|(n, name)| general(name, n)).collect(),
        Width::Bits64 => {
            let more = (8..16).map(|n| general(&format!("r{n}"), n));
            ORDER.iter().zip(NAMES[1]).map(|(&n, name)| general(name, n)).chain(more).collect()
        }
    };
    let ip = if width == Width::Bits32 { "eip" } else { "rip" };
    all.push(register(ip, bits, "code_ptr", Place::Ip));
    all.push(register("eflags", 32, "x86_flags", Place::Flags));
    let selectors = [
        ("cs", seg::CS),
        ("ss", seg::SS),
        ("ds", seg::DS),
        ("es", seg::ES),
        ("fs", seg::FS),
        ("gs", seg::GS),
    ];
    all.extend(selectors.map(|(name, n)| register(name, 32, "int32", Place::Selector(n))));
    all.extend((0..8).map(|n| register(format!("st{n}"), 80, "i387_ext", Place::Stack(n))));
    let floats = [
        ("fctrl", Float::Control),
        ("fstat", Float::Status),
        ("ftag", Float::Tag),
        ("fiseg", Float::CodeSelector),
        ("fioff", Float::CodeOffset),
        ("foseg", Float::DataSelector),
        ("fooff", Float::DataOffset),
        ("fop", Float::Opcode),
    ];
    all.extend(floats.map(|(name, float)| register(name, 32, "int", Place::Float(float))));
    all
}

fn system(width: Width, cpu: &Cpu) -> Vec<Register> {
    let bits = width.bits();
    let control = [0, 2, 3, 4].map(|n| register(format!("cr{n}"), bits, "int", Place::Control(n)));
    let debug = [0, 1, 2, 3, 6, 7];
    let debug = debug.map(|n| register(format!("dr{n}"), bits, "int", Place::Debug(n)));
    let mut all: Vec<_> = control.into_iter().chain(debug).collect();
    if cpu.features.long_mode {
        all.push(register("efer", 64, "int", Place::Efer));
    }
    if width == Width::Bits64 {
        all.push(register("k_gs_base", 64, "int", Place::KernelGsBase));
    }
    all.push(register("cpl", 8, "int", Place::Privilege));
    all
}

impl Register {
    /// Its bytes, the lowest first.
    pub(super) fn read(&self, cpu: &Cpu) -> Vec<u8> {
        let fpu = &cpu.fpu;
        let value: u128 = match self.place {
            Place::General(n) => cpu.gpr(n).into(),
            Place::Ip => cpu.rip.into(),
            Place::Flags => cpu.rflags().into(),
            Place::Selector(n) => cpu.segment(n).selector.into(),
            Place::Stack(n) => return fpu.register(n).to_vec(),
            Place::Float(float) => match float {
                Float::Control => fpu.control_word().into(),
                Float::Status => fpu.status_word().into(),
                Float::Tag => fpu.tag_word().into(),
                Float::CodeSelector => fpu.fcs.into(),
                Float::CodeOffset => fpu.fip.into(),
                Float::DataSelector => fpu.fds.into(),
                Float::DataOffset => fpu.fdp.into(),
                Float::Opcode => fpu.fop.into(),
            },
            Place::Xmm(n) => cpu.simd.xmm[usize::from(n) & 15],
            Place::Mxcsr => cpu.simd.mxcsr.into(),
            Place::Zmm(n) => return cpu.zmm(n).to_vec(),
            Place::Mask(n) => cpu.mask(n).into(),
            Place::Base(n) => cpu.segment(n).base.into(),
            Place::KernelGsBase => cpu.msrs.kernel_gs_base.into(),
            Place::Control(n) => match n {
                0 => cpu.cr0(),
                2 => cpu.cr2,
                3 => cpu.cr3(),
                _ => cpu.cr4(),
            }
            .into(),
            Place::Efer => cpu.efer().into(),
            Place::Debug(n) => debug(cpu, n).into(),
            Place::Privilege => cpu.cpl().into(),
        };
        value.to_le_bytes()[..self.bits / 8].to_vec()
    }

    /// Writes its bytes; whether that can be. What does not change can always be written. The guest is
    /// another one afterwards: its own registers are written as they are, without the checks of an
    /// instruction.
    pub(super) fn write(&self, cpu: &mut Cpu, bytes: &[u8]) -> bool {
        if bytes.len() != self.bits / 8 {
            return false;
        }
        if self.read(cpu) == bytes {
            return true;
        }
        let mut wide = [0; 16];
        wide.iter_mut().zip(bytes).for_each(|(wide, &byte)| *wide = byte);
        let long = u128::from_le_bytes(wide);
        let value = long as u64;
        let fpu = &mut cpu.fpu;
        match self.place {
            Place::General(n) => cpu.set_gpr(n, value),
            Place::Ip => cpu.rip = value,
            // The upper half reads as zero.
            Place::Flags => cpu.set_rflags(value),
            Place::Stack(n) => match bytes.try_into() {
                Ok(bytes) => fpu.set_register(n, bytes),
                Err(_) => return false,
            },
            Place::Float(float) => match float {
                Float::Control => fpu.set_control_word(value as u16),
                Float::Status => fpu.set_status_word(value as u16),
                Float::Tag => fpu.set_tag_word(value as u16),
                Float::CodeSelector => fpu.fcs = value as u16,
                Float::CodeOffset => fpu.fip = value,
                Float::DataSelector => fpu.fds = value as u16,
                Float::DataOffset => fpu.fdp = value,
                Float::Opcode => fpu.fop = value as u16 & 0x7ff,
            },
            Place::Xmm(n) => cpu.simd.xmm[usize::from(n) & 15] = long,
            // Others raise #GP when an instruction loads them.
            Place::Mxcsr if cpu.takes_mxcsr(value as u32) => cpu.simd.mxcsr = value as u32,
            Place::Zmm(n) => match bytes.try_into() {
                Ok(bytes) => cpu.set_zmm(n, bytes),
                Err(_) => return false,
            },
            Place::Mask(n) => cpu.set_mask(n, value as u16),
            Place::Base(n) => {
                let segment = *cpu.segment(n);
                cpu.set_segment(n, x86_cpu::descriptor::Segment { base: value, ..segment });
            }
            Place::KernelGsBase => cpu.msrs.kernel_gs_base = value,
            Place::Control(2) => cpu.cr2 = value,
            // A selector without its descriptor, and what changes the mode, would leave the processor in a
            // state that no instruction brings it to.
            Place::Mxcsr
            | Place::Selector(_)
            | Place::Control(_)
            | Place::Efer
            | Place::Debug(_)
            | Place::Privilege => return false,
        }
        true
    }
}

fn debug(cpu: &Cpu, n: u8) -> u64 {
    let registers = cpu.debug_registers();
    match n {
        6 => registers.status,
        7 => registers.control,
        n => registers.addresses[usize::from(n) & 3],
    }
}

/// The bytes of all registers, one behind the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Registers(pub(super) Vec<u8>);

impl gdbstub::arch::Registers for Registers {
    type ProgramCounter = u64;

    // Nothing asks for it.
    fn pc(&self) -> u64 {
        0
    }

    fn gdb_serialize(&self, mut write_byte: impl FnMut(Option<u8>)) {
        self.0.iter().for_each(|&byte| write_byte(Some(byte)));
    }

    fn gdb_deserialize(&mut self, bytes: &[u8]) -> Result<(), ()> {
        self.0 = bytes.to_vec();
        Ok(())
    }
}

/// A register's number to gdb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number(pub(super) usize);

impl gdbstub::arch::RegId for Number {
    fn from_raw_id(id: usize) -> Option<(Self, Option<std::num::NonZeroUsize>)> {
        Some((Self(id), None))
    }
}

/// x86 of either width.
pub(super) enum X86 {}

impl Arch for X86 {
    type Usize = u64;
    type Registers = Registers;
    type BreakpointKind = usize;
    type RegId = Number;
}
