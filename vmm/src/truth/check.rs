//! Whether the parts of a [`Truth`] agree, so that whoever uses it need not ask.

use super::{Context, Instruction, Row, Truth};
use crate::wording::quoted;

/// Most bytes of an instruction (SDM Volume 2, section 2.3.11).
const LONGEST: usize = 15;

impl Truth {
    /// Checks that every index is that of something, every number one that there can be, every row of
    /// counts as long as the events, and every sum a number of 64 bits.
    ///
    /// # Errors
    /// What is wrong first, in words.
    pub fn check(&self) -> Result<(), String> {
        let spaces = self.spaces.len();
        for (i, instruction) in self.instructions.iter().enumerate() {
            check_instruction(instruction, spaces).map_err(|e| format!("instruction {i}: {e}"))?;
        }
        for (i, row) in self.rows.iter().enumerate() {
            self.check_row(row).map_err(|e| format!("row {i}: {e}"))?;
        }
        for (i, context) in self.contexts.iter().enumerate() {
            self.check_context(i, context).map_err(|e| format!("context {i}: {e}"))?;
        }
        for (i, module) in self.modules.iter().enumerate() {
            if let Some(space) = module.space {
                check_index("space", space, spaces).map_err(|e| format!("module {i}: {e}"))?;
            }
        }
        for (i, event) in self.events.iter().enumerate() {
            let rows = self.rows.iter().map(|row| row.counts[i]);
            let contexts = self.contexts.iter().map(|context| context.own[i]);
            if sum(rows).is_none() || sum(contexts).is_none() {
                return Err(format!("the counts of {} exceed 64 bits", quoted(&event.name)));
            }
        }
        match sum(self.contexts.iter().map(|context| context.times)) {
            Some(_) => Ok(()),
            None => Err("the contexts were entered more often than 64 bits can say".into()),
        }
    }

    fn check_row(&self, row: &Row) -> Result<(), String> {
        check_index("instruction", row.instruction, self.instructions.len())?;
        if row.vcpu >= self.vcpus {
            return Err(format!("processor {} of {}", row.vcpu, self.vcpus));
        }
        check_cpl(row.cpl)?;
        self.check_counts(&row.counts)
    }

    fn check_context(&self, index: usize, context: &Context) -> Result<(), String> {
        if let Some(parent) = context.parent.filter(|&parent| parent as usize >= index) {
            return Err(format!("it stands before context {parent}, which it was entered from"));
        }
        check_index("space", context.space, self.spaces.len())?;
        check_cpl(context.cpl)?;
        self.check_counts(&context.own)
    }

    fn check_counts(&self, counts: &[u64]) -> Result<(), String> {
        match (counts.len(), self.events.len()) {
            (counts, events) if counts == events => Ok(()),
            (counts, events) => Err(format!("{counts} counts of {events} events")),
        }
    }
}

fn check_instruction(instruction: &Instruction, spaces: usize) -> Result<(), String> {
    check_index("space", instruction.space, spaces)?;
    if !matches!(instruction.bits, 16 | 32 | 64) {
        return Err(format!("code of {} bits", instruction.bits));
    }
    if instruction.bytes.len() > LONGEST {
        return Err(format!("{} bytes long", instruction.bytes.len()));
    }
    Ok(())
}

fn check_index(what: &str, index: u32, of: usize) -> Result<(), String> {
    if (index as usize) < of { Ok(()) } else { Err(format!("{what} {index} of {of}")) }
}

fn check_cpl(cpl: u8) -> Result<(), String> {
    if cpl <= 3 { Ok(()) } else { Err(format!("privilege level {cpl}")) }
}

fn sum(mut counts: impl Iterator<Item = u64>) -> Option<u64> {
    counts.try_fold(0, u64::checked_add)
}
