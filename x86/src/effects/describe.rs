//! What the families of instructions put their effects together with.

use super::{Access, Effects, MemoryOperand, Mode, Register, RegisterSet, flags};
use crate::insn::{AddrMask, BLOCK_BASE, File, Form, Insn, Mem, Size, ZERO, gpr, seg};

/// The effects of an instruction, as far as they are described.
pub(super) struct Description<'a> {
    pub(super) insn: &'a Insn,
    pub(super) mode: Mode,
    effects: Effects,
}

impl<'a> Description<'a> {
    pub(super) fn new(insn: &'a Insn, mode: Mode) -> Self {
        Self { insn, mode, effects: Effects { flags: flags::of(insn), ..Effects::NONE } }
    }

    pub(super) fn finish(self) -> Effects {
        self.effects
    }

    pub(super) fn read(&mut self, register: Register) {
        self.effects.read.insert(register);
        self.effects.values.insert(register);
    }

    /// Reads a register for an address.
    pub(super) fn read_for_address(&mut self, register: Register) {
        self.effects.read.insert(register);
    }

    pub(super) fn read_all(&mut self, registers: RegisterSet) {
        self.effects.read = self.effects.read.union(registers);
        self.effects.values = self.effects.values.union(registers);
    }

    pub(super) fn write(&mut self, register: Register) {
        self.effects.written.insert(register);
    }

    pub(super) fn write_all(&mut self, registers: RegisterSet) {
        self.effects.written = self.effects.written.union(registers);
    }

    pub(super) fn read_write(&mut self, register: Register) {
        self.read(register);
        self.write(register);
    }

    /// The register is written or stays as it was.
    pub(super) fn may_write(&mut self, register: Register) {
        self.write(register);
        self.effects.conditional.insert(register);
    }

    /// A part of the register is written.
    pub(super) fn write_part(&mut self, register: Register) {
        self.write(register);
        self.effects.partial.insert(register);
    }

    /// All registers written so far may stay as they were.
    pub(super) fn written_conditionally(&mut self) {
        self.effects.conditional = self.effects.written;
    }

    pub(super) fn open_ended(&mut self) {
        self.effects.open_ended = true;
    }

    /// The x87 stack is popped by `count`.
    pub(super) fn x87_pops(&mut self, count: i8) {
        self.effects.x87_pops = count;
    }

    /// Reads a general register, of an operand number.
    pub(super) fn read_general(&mut self, operand: u8) {
        self.read(Register::general(operand));
    }

    /// Writes the low `size` of a general register, or one of AH to BH. 32 bits are the whole: in
    /// 64-bit mode the others become zero, elsewhere there are no others.
    pub(super) fn write_general(&mut self, operand: u8, size: Size) {
        let register = Register::general(operand);
        if size <= Size::B2 { self.write_part(register) } else { self.write(register) }
    }

    /// Writes the low bits of a general register that are an address of the width.
    pub(super) fn write_address(&mut self, operand: u8, width: AddrMask) {
        let size = if width == AddrMask::Bits16 { Size::B2 } else { Size::B8 };
        self.write_general(operand, size);
    }

    /// Control goes somewhere else.
    pub(super) fn jump(&mut self) {
        self.write(Register::InstructionPointer);
    }

    /// Adds a memory operand and the registers that its address is computed from.
    pub(super) fn memory(&mut self, operand: MemoryOperand) {
        let mem = &operand.mem;
        for register in [mem.base, mem.index] {
            match register {
                ZERO => {}
                BLOCK_BASE => self.read_for_address(Register::InstructionPointer),
                general => self.read_for_address(Register::general(general)),
            }
        }
        match mem.seg {
            seg::ES..=seg::GS => self.read_for_address(Register::Segment(mem.seg)),
            seg::FS_BASE => self.read_for_address(Register::Segment(seg::FS)),
            seg::GS_BASE => self.read_for_address(Register::Segment(seg::GS)),
            _ => {}
        }
        self.effects.memory.push(operand);
    }

    /// `count` elements of `bytes`, of which the lowest is at `mem`.
    pub(super) fn elements(&mut self, access: Access, mem: Mem, bytes: u16, count: u8) {
        self.memory(MemoryOperand {
            access,
            mem,
            bytes,
            count,
            conditional: false,
            repeated: false,
        });
    }

    /// One element of `bytes` at `mem`.
    pub(super) fn one(&mut self, access: Access, mem: Mem, bytes: u16) {
        self.elements(access, mem, bytes, 1);
    }

    /// The memory operand that the instruction names.
    pub(super) fn operand(&mut self, access: Access) {
        self.one(access, self.insn.mem, self.insn.mem_bytes);
    }

    /// Whether the destination is a general register, else memory.
    fn to_register(&self) -> bool {
        matches!(self.insn.form, Form::Reg | Form::RegReg | Form::RegMem | Form::RegImm)
    }

    /// The destination, a general register or memory, is read.
    pub(super) fn read_destination(&mut self) {
        if self.to_register() {
            self.read_general(self.insn.dst);
        } else {
            self.operand(Access::Read);
        }
    }

    /// The destination, a general register or memory, is written.
    pub(super) fn write_destination(&mut self) {
        if self.to_register() {
            self.write_general(self.insn.dst, self.insn.size);
        } else {
            self.operand(Access::Write);
        }
    }

    /// The destination, a general register or memory, is read and written.
    pub(super) fn modify_destination(&mut self) {
        if self.to_register() {
            self.read_general(self.insn.dst);
            self.write_general(self.insn.dst, self.insn.size);
        } else {
            self.operand(Access::ReadWrite);
        }
    }

    /// The source is read: a general register, memory or an immediate.
    pub(super) fn read_source(&mut self) {
        match self.insn.form {
            Form::RegReg | Form::MemReg => self.read_general(self.insn.src),
            Form::RegMem => self.operand(Access::Read),
            _ => {}
        }
    }

    /// Reads operand 1 of an instruction on other than general registers: a register of any file, memory
    /// or an immediate.
    pub(super) fn read_second(&mut self) {
        match self.insn.form {
            Form::RegReg | Form::MemReg => {
                if let Some(register) = in_file(self.insn.files.second(), self.insn.src) {
                    self.read(register);
                }
            }
            Form::RegMem => self.operand(Access::Read),
            _ => {}
        }
    }

    /// Operand 0 of such an instruction, if it is a register.
    pub(super) fn first(&self) -> Option<Register> {
        in_file(self.insn.files.first(), self.insn.dst)
    }

    /// How a data segment register is addressed: in 64-bit mode only FS and GS have a base.
    pub(super) fn segment(&self, n: u8) -> u8 {
        match n {
            _ if !self.mode.is_64bit() => n,
            seg::FS => seg::FS_BASE,
            seg::GS => seg::GS_BASE,
            _ => seg::FLAT,
        }
    }

    /// An address in the stack segment.
    pub(super) fn stack_at(&self, base: u8, disp: i64) -> Mem {
        let Mode { stack: mask, stack_segment: seg, .. } = self.mode;
        Mem { disp, base, index: ZERO, scale: 0, seg, mask }
    }

    /// Writes the stack pointer.
    pub(super) fn move_stack(&mut self) {
        self.write_address(gpr::RSP, self.mode.stack);
    }

    /// Pushes `count` elements.
    pub(super) fn push(&mut self, count: u8, size: Size) {
        let bytes = size.bytes() as i64 * i64::from(count);
        self.stack_access(Access::Write, gpr::RSP, -bytes, count, size);
        self.read_general(gpr::RSP);
        self.move_stack();
    }

    /// Pops `count` elements.
    pub(super) fn pop(&mut self, count: u8, size: Size) {
        self.stack_access(Access::Read, gpr::RSP, 0, count, size);
        self.read_general(gpr::RSP);
        self.move_stack();
    }

    /// Accesses `count` elements in the stack segment.
    pub(super) fn stack_access(
        &mut self,
        access: Access,
        base: u8,
        disp: i64,
        count: u8,
        size: Size,
    ) {
        let mem = self.stack_at(base, disp);
        self.elements(access, mem, size.bytes() as u16, count);
    }
}

/// Register `n` of a file.
pub(super) fn in_file(file: File, n: u8) -> Option<Register> {
    Some(match file {
        File::None => return None,
        File::General => Register::general(n),
        File::Mmx => Register::Mmx(n & 7),
        File::Xmm => Register::Xmm(n & 15),
        File::X87 => Register::X87(n & 7),
        File::Segment => Register::Segment(n),
        File::Control => Register::Control(n & 15),
        File::Debug => Register::Debug(n & 7),
        File::Zmm => Register::Zmm(n & 31),
        File::Mask => Register::Mask(n & 7),
    })
}
