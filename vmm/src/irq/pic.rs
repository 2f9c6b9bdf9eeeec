//! The pair of 8259A programmable interrupt controllers of a PC (Intel 8259A datasheet 231468), with
//! the edge/level control registers of later chipsets (82371AB datasheet, ELCR1 and ELCR2).

use serde::{Deserialize, Serialize};

/// Which of the two controllers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chip {
    /// IRQ 0 to 7, ports 20h and 21h.
    Master,
    /// IRQ 8 to 15, ports A0h and A1h, on IR2 of the master.
    Slave,
}

/// The master's input that the slave drives.
const CASCADE: u8 = 2;
/// A request that went away before the acknowledge is answered as IR7.
const SPURIOUS: u8 = 7;

/// The initialisation command word that the next write to the odd port is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Step {
    Ready,
    Icw2,
    Icw3,
    Icw4,
}

/// One 8259A.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Pic8259 {
    step: Step,
    /// ICW1 bit 0: an ICW4 follows.
    icw4_follows: bool,
    /// ICW1 bit 1: no ICW3 follows.
    single: bool,
    /// ICW1 bit 3: every input is level sensitive, whatever ELCR says.
    level_mode: bool,
    /// ICW2 bits 7:3.
    vector_base: u8,
    /// ICW4 bit 1.
    auto_eoi: bool,
    /// ICW4 bit 4.
    special_fully_nested: bool,
    /// OCW2 "rotate in automatic EOI mode".
    rotate_on_auto_eoi: bool,
    /// OCW3 ESMM/SMM.
    special_mask: bool,
    /// OCW3 P: the next read is an acknowledge.
    poll: bool,
    /// OCW3 RR/RIS: reads of the even port give ISR rather than IRR.
    read_isr: bool,
    irr: u8,
    isr: u8,
    imr: u8,
    /// Level of the eight inputs.
    lines: u8,
    /// ELCR: a set bit makes the input level sensitive.
    elcr: u8,
    /// ELCR bits that exist.
    elcr_writable: u8,
    /// The input of the lowest priority; the next one has the highest.
    lowest: u8,
    /// The inputs that are slaves, which only the special fully nested mode looks at.
    cascade: u8,
}

impl Pic8259 {
    fn new(elcr_writable: u8, cascade: u8) -> Self {
        Self {
            step: Step::Ready,
            icw4_follows: false,
            single: false,
            level_mode: false,
            vector_base: 0,
            auto_eoi: false,
            special_fully_nested: false,
            rotate_on_auto_eoi: false,
            special_mask: false,
            poll: false,
            read_isr: false,
            irr: 0,
            isr: 0,
            imr: 0,
            lines: 0,
            elcr: 0,
            elcr_writable,
            lowest: 7,
            cascade,
        }
    }

    fn is_level(&self, input: u8) -> bool {
        self.level_mode || self.elcr & 1 << input != 0
    }

    /// An edge-sensitive request also goes away when its line falls before the acknowledge; that is
    /// where the spurious IR7 comes from.
    fn set_line(&mut self, input: u8, level: bool) {
        let bit = 1 << input;
        if !level {
            self.lines &= !bit;
            self.irr &= !bit;
        } else if self.lines & bit == 0 || self.is_level(input) {
            self.lines |= bit;
            self.irr |= bit;
        }
    }

    /// The highest-priority input among `inputs`.
    fn highest(&self, inputs: u8) -> Option<u8> {
        (1..=8).map(|step| (self.lowest + step) & 7).find(|input| inputs & 1 << input != 0)
    }

    /// How far `input` is from the highest priority.
    fn rank(&self, input: u8) -> u8 {
        input.wrapping_sub(self.lowest).wrapping_sub(1) & 7
    }

    /// The input that INT asks service for.
    fn request(&self) -> Option<u8> {
        let input = self.highest(self.irr & !self.imr)?;
        let mut in_service = self.isr;
        if self.special_mask {
            // Masked inputs in service do not block the others, nor themselves unmasked.
            in_service &= !self.imr;
        }
        if self.special_fully_nested {
            // A slave in service may interrupt again with a request of higher priority of its own.
            in_service &= !(self.cascade & 1 << input);
        }
        match self.highest(in_service) {
            Some(_) if self.special_mask => (in_service & 1 << input == 0).then_some(input),
            Some(serving) => (self.rank(input) < self.rank(serving)).then_some(input),
            None => Some(input),
        }
    }

    /// INTA: the input that is acknowledged.
    fn acknowledge(&mut self) -> Option<u8> {
        let input = self.request()?;
        let bit = 1 << input;
        if !self.is_level(input) {
            self.irr &= !bit;
        }
        if self.auto_eoi {
            if self.rotate_on_auto_eoi {
                self.lowest = input;
            }
        } else {
            self.isr |= bit;
        }
        Some(input)
    }

    fn write_command(&mut self, value: u8) {
        if value & 1 << 4 != 0 {
            self.write_icw1(value);
        } else if value & 1 << 3 != 0 {
            self.write_ocw3(value);
        } else {
            self.write_ocw2(value);
        }
    }

    /// ICW1 clears the edge detection, IMR, ISR and the modes, and gives IR7 the lowest priority. A
    /// line that is already high must fall and rise again, unless it is level sensitive.
    fn write_icw1(&mut self, value: u8) {
        let held = self.lines;
        *self = Self { elcr: self.elcr, ..Self::new(self.elcr_writable, self.cascade) };
        self.lines = held;
        self.step = Step::Icw2;
        self.icw4_follows = value & 1 != 0;
        self.single = value & 1 << 1 != 0;
        self.level_mode = value & 1 << 3 != 0;
        self.irr = if self.level_mode { held } else { held & self.elcr };
    }

    /// OCW2: R, SL and EOI in bits 7:5, an input in bits 2:0.
    fn write_ocw2(&mut self, value: u8) {
        let input = value & 7;
        // In special mask mode the non-specific EOI does not see masked inputs in service.
        let visible = if self.special_mask { self.isr & !self.imr } else { self.isr };
        match value >> 5 {
            0b000 => self.rotate_on_auto_eoi = false,
            0b100 => self.rotate_on_auto_eoi = true,
            0b001 | 0b101 => {
                if let Some(serving) = self.highest(visible) {
                    self.isr &= !(1 << serving);
                    if value & 1 << 7 != 0 {
                        self.lowest = serving;
                    }
                }
            }
            0b011 => self.isr &= !(1 << input),
            0b111 => {
                self.isr &= !(1 << input);
                self.lowest = input;
            }
            0b110 => self.lowest = input,
            // 010b: no operation.
            _ => {}
        }
    }

    fn write_ocw3(&mut self, value: u8) {
        if value & 1 << 6 != 0 {
            self.special_mask = value & 1 << 5 != 0;
        }
        self.poll = value & 1 << 2 != 0;
        if value & 1 << 1 != 0 {
            self.read_isr = value & 1 != 0;
        }
    }

    fn write_data(&mut self, value: u8) {
        match self.step {
            Step::Ready => self.imr = value,
            Step::Icw2 => {
                self.vector_base = value & 0xF8;
                self.step = if !self.single {
                    Step::Icw3
                } else if self.icw4_follows {
                    Step::Icw4
                } else {
                    Step::Ready
                };
            }
            // The cascade wiring of a PC is fixed, whatever ICW3 says.
            Step::Icw3 => {
                self.step = if self.icw4_follows { Step::Icw4 } else { Step::Ready };
            }
            Step::Icw4 => {
                self.auto_eoi = value & 1 << 1 != 0;
                self.special_fully_nested = value & 1 << 4 != 0;
                self.step = Step::Ready;
            }
        }
    }

    /// A read of either port in poll mode: bit 7 says whether there was a request, bits 2:0 which.
    fn read_poll(&mut self) -> u8 {
        self.poll = false;
        self.acknowledge().map_or(0, |input| 1 << 7 | input)
    }

    fn read_command(&mut self) -> u8 {
        if self.poll {
            self.read_poll()
        } else if self.read_isr {
            self.isr
        } else {
            self.irr
        }
    }

    fn read_data(&mut self) -> u8 {
        if self.poll { self.read_poll() } else { self.imr }
    }

    fn write_elcr(&mut self, value: u8) {
        self.elcr = value & self.elcr_writable;
        self.irr |= self.lines & self.elcr;
    }
}

/// One 8259A as its registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PicRegisters {
    /// IRR.
    pub irr: u8,
    /// ISR.
    pub isr: u8,
    /// IMR.
    pub imr: u8,
    /// Level of the inputs.
    pub lines: u8,
    /// ELCR.
    pub elcr: u8,
    /// The input of the highest priority.
    pub highest: u8,
    /// ICW2 bits 7:3.
    pub vector_base: u8,
    /// The next write to the odd port is OCW1 (0), ICW2 (1), ICW3 (2) or ICW4 (3).
    pub step: u8,
    /// An ICW4 follows.
    pub icw4_follows: bool,
    /// ICW4: automatic end of interrupt.
    pub auto_eoi: bool,
    /// ICW4: special fully nested mode.
    pub special_fully_nested: bool,
    /// OCW2: rotate in automatic EOI mode.
    pub rotate_on_auto_eoi: bool,
    /// OCW3: special mask mode.
    pub special_mask: bool,
    /// OCW3: the next read is an acknowledge.
    pub poll: bool,
    /// OCW3: reads give ISR.
    pub read_isr: bool,
}

impl Pic8259 {
    fn registers(&self) -> PicRegisters {
        PicRegisters {
            irr: self.irr,
            isr: self.isr,
            imr: self.imr,
            lines: self.lines,
            elcr: self.elcr,
            highest: self.lowest.wrapping_add(1) & 7,
            vector_base: self.vector_base,
            step: match self.step {
                Step::Ready => 0,
                Step::Icw2 => 1,
                Step::Icw3 => 2,
                Step::Icw4 => 3,
            },
            icw4_follows: self.icw4_follows,
            auto_eoi: self.auto_eoi,
            special_fully_nested: self.special_fully_nested,
            rotate_on_auto_eoi: self.rotate_on_auto_eoi,
            special_mask: self.special_mask,
            poll: self.poll,
            read_isr: self.read_isr,
        }
    }

    /// ICW1's single and level-triggered modes, which no PC uses, are not moved.
    fn set_registers(&mut self, registers: &PicRegisters) {
        let &PicRegisters { irr, isr, imr, lines, elcr, highest, vector_base, step, .. } =
            registers;
        *self = Self {
            irr,
            isr,
            imr,
            lines,
            elcr: elcr & self.elcr_writable,
            lowest: highest.wrapping_sub(1) & 7,
            vector_base: vector_base & 0xF8,
            step: match step {
                1 => Step::Icw2,
                2 => Step::Icw3,
                3 => Step::Icw4,
                _ => Step::Ready,
            },
            icw4_follows: registers.icw4_follows,
            auto_eoi: registers.auto_eoi,
            special_fully_nested: registers.special_fully_nested,
            rotate_on_auto_eoi: registers.rotate_on_auto_eoi,
            special_mask: registers.special_mask,
            poll: registers.poll,
            read_isr: registers.read_isr,
            ..Self::new(self.elcr_writable, self.cascade)
        };
    }
}

/// The cascaded pair, 16 interrupt requests.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PicPair {
    master: Pic8259,
    slave: Pic8259,
}

impl Default for PicPair {
    fn default() -> Self {
        Self::new()
    }
}

impl PicPair {
    /// Both as power-up leaves them, not initialised. IRQ 0, 1, 2, 8 and 13 cannot be made level
    /// sensitive by ELCR.
    pub fn new() -> Self {
        Self { master: Pic8259::new(0xF8, 1 << CASCADE), slave: Pic8259::new(0xDE, 0) }
    }

    /// Reset; the inputs keep the level that drives them.
    pub fn reset(&mut self) {
        let (master, slave) = (self.master.lines, self.slave.lines);
        *self = Self::new();
        self.master.lines = master & !(1 << CASCADE);
        self.slave.lines = slave;
    }

    /// Sets the level of request `irq`, 0 to 15. IRQ2 is the cascade and takes no device.
    pub fn set_irq(&mut self, irq: u8, level: bool) {
        match irq {
            CASCADE => {}
            0..8 => self.master.set_line(irq, level),
            8..16 => self.slave.set_line(irq - 8, level),
            _ => {}
        }
        self.cascade();
    }

    /// The slave's INT output is the master's IR2.
    fn cascade(&mut self) {
        let level = self.slave.request().is_some();
        self.master.set_line(CASCADE, level);
    }

    /// The INT output of the master: a request for the processor.
    pub fn intr(&self) -> bool {
        self.master.request().is_some()
    }

    /// Interrupt acknowledge: the vector that the pair puts on the bus.
    pub fn acknowledge(&mut self) -> u8 {
        let vector = match self.master.acknowledge() {
            None => self.master.vector_base | SPURIOUS,
            Some(CASCADE) => {
                let input = self.slave.acknowledge().unwrap_or(SPURIOUS);
                // The slave's output falls with the acknowledge and may rise again at once.
                self.master.set_line(CASCADE, false);
                self.slave.vector_base | input
            }
            Some(input) => self.master.vector_base | input,
        };
        self.cascade();
        vector
    }

    /// The registers of master and slave, to be moved to another implementation.
    #[must_use]
    pub fn registers(&self) -> [PicRegisters; 2] {
        [self.master.registers(), self.slave.registers()]
    }

    /// Takes over the registers of another implementation. The state of the cascade input is derived
    /// from the slave, since implementations differ in it: some leave its request set, some send it as
    /// a pulse.
    pub fn set_registers(&mut self, registers: &[PicRegisters; 2]) {
        self.master.set_registers(&registers[0]);
        self.slave.set_registers(&registers[1]);
        self.master.set_line(CASCADE, false);
        self.cascade();
    }

    /// Reads the even port (20h, A0h) or, with `data`, the odd one (21h, A1h).
    pub fn read(&mut self, chip: Chip, data: bool) -> u8 {
        let pic = self.chip(chip);
        let value = if data { pic.read_data() } else { pic.read_command() };
        self.cascade();
        value
    }

    /// Writes the even or the odd port.
    pub fn write(&mut self, chip: Chip, data: bool, value: u8) {
        let pic = self.chip(chip);
        if data {
            pic.write_data(value);
        } else {
            pic.write_command(value);
        }
        self.cascade();
    }

    /// ELCR1 (4D0h) or ELCR2 (4D1h).
    pub fn elcr(&self, chip: Chip) -> u8 {
        match chip {
            Chip::Master => self.master.elcr,
            Chip::Slave => self.slave.elcr,
        }
    }

    /// Writes ELCR1 or ELCR2; the bits of inputs that are always edge sensitive stay clear.
    pub fn set_elcr(&mut self, chip: Chip, value: u8) {
        self.chip(chip).write_elcr(value);
        self.cascade();
    }

    fn chip(&mut self, chip: Chip) -> &mut Pic8259 {
        match chip {
            Chip::Master => &mut self.master,
            Chip::Slave => &mut self.slave,
        }
    }
}
