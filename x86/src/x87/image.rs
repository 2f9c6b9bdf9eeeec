//! Memory images: the environment (FNSTENV), the state (FNSAVE), the x87 part of FXSAVE.
//!
//! Source: AMD64 APM volume 2, section 11.4 (figures 11-7 to 11-11).

use super::status::{ES, EXCEPTIONS};
use super::{CONTROL_BITS, CONTROL_ONES, Fpu};
use crate::softfloat::F80;

/// Size of the environment with a 16-bit operand size.
pub const ENV_SIZE_16: usize = 14;
/// Size of the environment with a 32-bit operand size.
pub const ENV_SIZE_32: usize = 28;
/// Size of the registers behind the environment.
const REGISTERS: usize = 80;
/// Size of the x87 part of an FXSAVE image: 32 bytes of words and pointers, eight registers.
pub const FXSAVE_SIZE: usize = 160;

/// How the environment is laid out: by operand size, and by the mode, which decides whether the
/// pointers are selector and offset or linear addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum EnvFormat {
    /// 14 bytes, real or virtual-8086 mode.
    Real16,
    /// 14 bytes, protected mode.
    Protected16,
    /// 28 bytes, real or virtual-8086 mode.
    Real32,
    /// 28 bytes, protected and long mode.
    Protected32,
}

impl EnvFormat {
    /// Bytes of the environment.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Real16 | Self::Protected16 => ENV_SIZE_16,
            Self::Real32 | Self::Protected32 => ENV_SIZE_32,
        }
    }

    /// Bytes of the state that FNSAVE stores: the environment and the registers.
    #[must_use]
    pub const fn save_size(self) -> usize {
        self.size() + REGISTERS
    }
}

/// Little-endian fields in a byte buffer; what lies outside reads as zero and is not written.
struct Fields<B>(B);

impl<B: AsRef<[u8]>> Fields<B> {
    fn get<const N: usize>(&self, at: usize) -> [u8; N] {
        let mut out = [0; N];
        for (to, from) in out.iter_mut().zip(self.0.as_ref().iter().skip(at)) {
            *to = *from;
        }
        out
    }

    fn word(&self, at: usize) -> u16 {
        u16::from_le_bytes(self.get(at))
    }

    fn dword(&self, at: usize) -> u32 {
        u32::from_le_bytes(self.get(at))
    }
}

impl<B: AsMut<[u8]>> Fields<B> {
    fn put<const N: usize>(&mut self, at: usize, bytes: [u8; N]) {
        for (to, from) in self.0.as_mut().iter_mut().skip(at).zip(bytes) {
            *to = from;
        }
    }
}

impl Fpu {
    /// The environment, [`EnvFormat::size`] bytes of the result. FNSTENV also masks all
    /// exceptions: [`Fpu::mask_all`].
    #[must_use]
    pub fn environment(&self, format: EnvFormat) -> [u8; ENV_SIZE_32] {
        let mut image = Fields([0; ENV_SIZE_32]);
        let (control, status, tag) = (self.control, self.status_word(), self.tag_word());
        let (mut fip, mut fdp) = (self.fip as u32, self.fdp as u32);
        if matches!(format, EnvFormat::Real16 | EnvFormat::Real32) {
            fip = fip.wrapping_add(u32::from(self.fcs) << 4);
            fdp = fdp.wrapping_add(u32::from(self.fds) << 4);
        }
        match format {
            EnvFormat::Real16 | EnvFormat::Protected16 => {
                let [fip_high, fdp_high] = if format == EnvFormat::Real16 {
                    [(fip >> 16 << 12) as u16 | self.fop, (fdp >> 16 << 12) as u16]
                } else {
                    [self.fcs, self.fds]
                };
                let words = [control, status, tag, fip as u16, fip_high, fdp as u16, fdp_high];
                for (n, word) in words.into_iter().enumerate() {
                    image.put(2 * n, word.to_le_bytes());
                }
            }
            EnvFormat::Real32 | EnvFormat::Protected32 => {
                let pointers = if format == EnvFormat::Real32 {
                    [
                        fip & 0xFFFF | 0xFFFF_0000,
                        fip >> 16 << 12 | u32::from(self.fop),
                        fdp & 0xFFFF | 0xFFFF_0000,
                        fdp >> 16 << 12,
                    ]
                } else {
                    [
                        fip,
                        u32::from(self.fop) << 16 | u32::from(self.fcs),
                        fdp,
                        0xFFFF_0000 | u32::from(self.fds),
                    ]
                };
                let words = [control, status, tag].map(|word| 0xFFFF_0000 | u32::from(word));
                for (n, word) in words.into_iter().chain(pointers).enumerate() {
                    image.put(4 * n, word.to_le_bytes());
                }
            }
        }
        image.0
    }

    /// FLDENV.
    pub fn set_environment(&mut self, format: EnvFormat, image: &[u8]) {
        let image = Fields(image);
        let step = format.size() / 7;
        self.control = image.word(0) & CONTROL_BITS | CONTROL_ONES;
        self.set_status_word(image.word(step));
        self.set_tag_word(image.word(2 * step));
        let (word, dword) = (|n: usize| image.word(step * n), |n: usize| image.dword(step * n));
        match format {
            EnvFormat::Real16 => {
                (self.fcs, self.fds) = (0, 0);
                self.fip = u64::from(word(3)) | u64::from(word(4) >> 12) << 16;
                self.fop = word(4) & 0x7FF;
                self.fdp = u64::from(word(5)) | u64::from(word(6) >> 12) << 16;
            }
            EnvFormat::Protected16 => {
                (self.fip, self.fcs) = (word(3).into(), word(4));
                (self.fdp, self.fds) = (word(5).into(), word(6));
            }
            EnvFormat::Real32 => {
                (self.fcs, self.fds) = (0, 0);
                self.fip = u64::from(word(3)) | u64::from(dword(4) >> 12 & 0xFFFF) << 16;
                self.fop = word(4) & 0x7FF;
                self.fdp = u64::from(word(5)) | u64::from(dword(6) >> 12 & 0xFFFF) << 16;
            }
            EnvFormat::Protected32 => {
                (self.fip, self.fcs) = (dword(3).into(), word(4));
                self.fop = (dword(4) >> 16) as u16 & 0x7FF;
                (self.fdp, self.fds) = (dword(5).into(), word(6));
            }
        }
    }

    /// What FNSTENV does after the store.
    pub fn mask_all(&mut self) {
        self.set_control_word(self.control | EXCEPTIONS);
    }

    /// The registers behind the environment in an FNSAVE image, ST(0) first.
    #[must_use]
    pub fn save_registers(&self) -> [u8; REGISTERS] {
        let mut image = Fields([0; REGISTERS]);
        for i in 0..8 {
            image.put(10 * usize::from(i), self.st[self.physical(i)].to_bytes());
        }
        image.0
    }

    /// FRSTOR: the environment and the registers behind it.
    pub fn restore(&mut self, format: EnvFormat, image: &[u8]) {
        self.set_environment(format, image);
        let image = Fields(image);
        for i in 0..8 {
            let n = self.physical(i);
            self.st[n] = F80::from_bytes(image.get(format.size() + 10 * usize::from(i)));
        }
    }

    /// The first 160 bytes of an FXSAVE image; the MXCSR fields at 24 and 28 are left zero. `wide`
    /// (REX.W) stores 64-bit pointers. The pointers and the opcode are saved `always`
    /// ([`crate::features::Features::fxsave_pointers`]) or only while an unmasked exception is
    /// pending, and are zero otherwise.
    #[must_use]
    pub fn fxsave(&self, wide: bool, always: bool) -> [u8; FXSAVE_SIZE] {
        let mut image = Fields([0; FXSAVE_SIZE]);
        image.put(0, self.control.to_le_bytes());
        image.put(2, self.status_word().to_le_bytes());
        image.put(4, [self.valid]);
        if always || self.status & ES != 0 {
            image.put(6, self.fop.to_le_bytes());
            if wide {
                image.put(8, self.fip.to_le_bytes());
                image.put(16, self.fdp.to_le_bytes());
            } else {
                image.put(8, (self.fip as u32).to_le_bytes());
                image.put(12, self.fcs.to_le_bytes());
                image.put(16, (self.fdp as u32).to_le_bytes());
                image.put(20, self.fds.to_le_bytes());
            }
        }
        for i in 0..8 {
            image.put(32 + 16 * usize::from(i), self.st[self.physical(i)].to_bytes());
        }
        image.0
    }

    /// The x87 part of an image for another processor: as FXSAVE with REX.W lays it out, pointers
    /// and opcode always there. The selectors of the pointers have no place in it.
    #[must_use]
    pub fn to_image(&self) -> [u8; FXSAVE_SIZE] {
        self.fxsave(true, true)
    }

    /// Takes over what [`Fpu::to_image`] has. The selectors stay where the pointers do, and are zero
    /// otherwise, as on processors that no longer save them.
    pub fn set_image(&mut self, image: &[u8; FXSAVE_SIZE]) {
        let (fip, fdp) = (self.fip, self.fdp);
        self.fxrstor(image, true, true);
        if self.fip != fip {
            self.fcs = 0;
        }
        if self.fdp != fdp {
            self.fds = 0;
        }
    }

    /// The x87 part of FXRSTOR, from the first 160 bytes of the image. The pointers and the opcode are
    /// loaded `always` or only if the image has an unmasked exception pending.
    pub fn fxrstor(&mut self, image: &[u8; FXSAVE_SIZE], wide: bool, always: bool) {
        let image = Fields(image);
        self.control = image.word(0) & CONTROL_BITS | CONTROL_ONES;
        self.set_status_word(image.word(2));
        let [valid] = image.get(4);
        self.valid = valid;
        if always || self.status & ES != 0 {
            self.fop = image.word(6) & 0x7FF;
            if wide {
                self.fip = u64::from_le_bytes(image.get(8));
                self.fdp = u64::from_le_bytes(image.get(16));
            } else {
                (self.fip, self.fcs) = (image.dword(8).into(), image.word(12));
                (self.fdp, self.fds) = (image.dword(16).into(), image.word(20));
            }
        }
        for i in 0..8 {
            let n = self.physical(i);
            self.st[n] = F80::from_bytes(image.get(32 + 16 * usize::from(i)));
        }
    }
}
