//! What a program without an operating system needs to say something and to end: the first serial
//! port, in polled mode, the debug exit port and soft off.

use iced_x86::IcedError;
use iced_x86::code_asm::{CodeLabel, al, ax, byte_ptr, dl, dx, eax, ebx, ecx, edi, edx, esi};

use crate::devices::acpi_pm::{PM1A_CONTROL, SLEEP_TYPE_S5};
use crate::devices::debug_exit::DEBUG_EXIT;
use crate::program::Program;

/// Transmit holding register of the first 16550.
const DATA: u32 = 0x3F8;
/// Line status register; bit 5: the transmitter takes a character.
const LINE_STATUS: u32 = 0x3FD;
const TRANSMITTER_READY: u32 = 1 << 5;
/// SLP_EN of PM1a_CNT (ACPI 6.5, section 4.8.3.2.1).
const SLEEP_ENABLE: u16 = 1 << 13;
/// Position of SLP_TYP.
const SLEEP_TYPE: u32 = 10;

/// Subroutines of a program that write to the console. They preserve all registers but EFLAGS, if
/// not said otherwise.
pub struct Console {
    put_char: CodeLabel,
    put_text: CodeLabel,
    put_hex: CodeLabel,
    put_decimal: CodeLabel,
}

impl Console {
    /// Assembles the subroutines here, and a jump around them.
    ///
    /// # Errors
    /// If an instruction cannot be encoded; so for all methods here.
    pub fn new(p: &mut Program) -> Result<Self, IcedError> {
        let mut over = p.create_label();
        p.jmp(over)?;
        let put_char = put_char(p)?;
        let put_text = put_text(p, put_char)?;
        let put_hex = put_hex(p, put_char)?;
        let put_decimal = put_decimal(p, put_char)?;
        p.place(&mut over)?;
        Ok(Self { put_char, put_text, put_hex, put_decimal })
    }

    /// Writes `text`.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn text(&self, p: &mut Program, text: &str) -> Result<(), IcedError> {
        let bytes = p.constant(text.as_bytes());
        p.push(esi)?;
        p.push(ecx)?;
        p.address(esi, bytes)?;
        p.mov(ecx, text.len() as u32)?;
        p.call(self.put_text)?;
        p.pop(ecx)?;
        p.pop(esi)
    }

    /// Writes ECX bytes at ESI. Changes both.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn bytes(&self, p: &mut Program) -> Result<(), IcedError> {
        p.call(self.put_text)
    }

    /// Writes the character in AL.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn character(&self, p: &mut Program) -> Result<(), IcedError> {
        p.call(self.put_char)
    }

    /// Writes EDX:EAX as 16 hexadecimal digits.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn hex(&self, p: &mut Program) -> Result<(), IcedError> {
        p.call(self.put_hex)
    }

    /// Writes EDX:EAX in decimal, right-aligned in `width` columns.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn decimal(&self, p: &mut Program, width: u32) -> Result<(), IcedError> {
        p.push(edi)?;
        p.mov(edi, width)?;
        p.call(self.put_decimal)?;
        p.pop(edi)
    }

    /// Ends the run: the exit status of the program is `2 * code + 1`.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn exit(&self, p: &mut Program, code: u32) -> Result<(), IcedError> {
        p.mov(edx, u32::from(DEBUG_EXIT))?;
        p.mov(eax, code)?;
        p.out(dx, eax)?;
        stay(p)
    }

    /// Switches the machine off.
    ///
    /// # Errors
    /// If an instruction cannot be encoded.
    pub fn power_off(&self, p: &mut Program) -> Result<(), IcedError> {
        p.mov(edx, u32::from(PM1A_CONTROL))?;
        p.mov(eax, u32::from(SLEEP_TYPE_S5 << SLEEP_TYPE | SLEEP_ENABLE))?;
        p.out(dx, ax)?;
        stay(p)
    }
}

/// Does nothing more.
fn stay(p: &mut Program) -> Result<(), IcedError> {
    let stay = p.here()?;
    p.cli()?;
    p.hlt()?;
    p.jmp(stay)
}

/// AL to the serial port.
fn put_char(p: &mut Program) -> Result<CodeLabel, IcedError> {
    let entry = p.here()?;
    p.push(edx)?;
    p.push(eax)?;
    p.mov(edx, LINE_STATUS)?;
    let wait = p.here()?;
    p.in_(al, dx)?;
    p.test(al, TRANSMITTER_READY)?;
    p.jz(wait)?;
    p.pop(eax)?;
    p.mov(edx, DATA)?;
    p.out(dx, al)?;
    p.pop(edx)?;
    p.ret()?;
    Ok(entry)
}

/// ECX bytes at ESI.
fn put_text(p: &mut Program, put_char: CodeLabel) -> Result<CodeLabel, IcedError> {
    let entry = p.here()?;
    p.push(eax)?;
    let next = p.here()?;
    p.mov(al, byte_ptr(esi))?;
    p.call(put_char)?;
    p.inc(esi)?;
    p.dec(ecx)?;
    p.jnz(next)?;
    p.pop(eax)?;
    p.ret()?;
    Ok(entry)
}

/// EDX:EAX, four bits at a time from the top of EDX, then of EAX.
fn put_hex(p: &mut Program, put_char: CodeLabel) -> Result<CodeLabel, IcedError> {
    let half = p.here()?;
    p.push(eax)?;
    p.push(ecx)?;
    p.push(edx)?;
    p.mov(edx, eax)?;
    p.mov(ecx, 8)?;
    let next = p.here()?;
    p.rol(edx, 4)?;
    p.mov(eax, edx)?;
    p.and(eax, 0xF)?;
    p.add(al, u32::from(b'0'))?;
    p.cmp(al, u32::from(b'9'))?;
    let mut digit = p.create_label();
    p.jbe(digit)?;
    p.add(al, u32::from(b'a' - b'9' - 1))?;
    p.place(&mut digit)?;
    p.call(put_char)?;
    p.dec(ecx)?;
    p.jnz(next)?;
    p.pop(edx)?;
    p.pop(ecx)?;
    p.pop(eax)?;
    p.ret()?;

    let entry = p.here()?;
    p.xchg(eax, edx)?;
    p.call(half)?;
    p.xchg(eax, edx)?;
    p.call(half)?;
    p.ret()?;
    Ok(entry)
}

/// EDX:EAX in decimal, at least EDI columns: digits are pushed from the last, blanks go first.
fn put_decimal(p: &mut Program, put_char: CodeLabel) -> Result<CodeLabel, IcedError> {
    let registers = [eax, ebx, ecx, edx, esi, edi];
    let entry = p.here()?;
    for register in registers {
        p.push(register)?;
    }
    p.mov(ebx, 10)?;
    p.xor(ecx, ecx)?;
    // The upper half by ten, then its remainder and the lower half.
    let divide = p.here()?;
    p.mov(esi, eax)?;
    p.mov(eax, edx)?;
    p.xor(edx, edx)?;
    p.div(ebx)?;
    p.xchg(eax, esi)?;
    p.div(ebx)?;
    p.add(dl, u32::from(b'0'))?;
    p.push(edx)?;
    p.mov(edx, esi)?;
    p.inc(ecx)?;
    p.or(esi, eax)?;
    p.jnz(divide)?;
    p.mov(al, u32::from(b' '))?;
    p.sub(edi, ecx)?;
    let mut digits = p.create_label();
    p.jbe(digits)?;
    let blank = p.here()?;
    p.call(put_char)?;
    p.dec(edi)?;
    p.jnz(blank)?;
    p.place(&mut digits)?;
    let digit = p.here()?;
    p.pop(eax)?;
    p.call(put_char)?;
    p.dec(ecx)?;
    p.jnz(digit)?;
    for register in registers.into_iter().rev() {
        p.pop(register)?;
    }
    p.ret()?;
    Ok(entry)
}
