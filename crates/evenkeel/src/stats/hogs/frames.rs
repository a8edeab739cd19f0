//! The return addresses on a stack that was copied.

use crate::sys::stack::Stack;

pub(super) use imp::Frames;

#[cfg(all(
    feature = "hog-stacks",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
mod imp {
    use std::ops::Range;

    use framehop::{
        CacheNative, ExplicitModuleSectionInfo, FrameAddress, MayAllocateDuringUnwind, Module,
        UnwindRegsNative, Unwinder, UnwinderNative,
    };

    use super::Stack;
    use crate::sys::stack;

    /// A stack is followed so far. An async function takes one frame or two for each level.
    const DEPTH_MAX: usize = 256;

    /// Finds frames by the tables of the program and its libraries.
    pub(in crate::stats::hogs) struct Frames {
        /// How often libraries were loaded when the tables were read.
        changes: Option<u64>,
        unwinder: UnwinderNative<Vec<u8>, MayAllocateDuringUnwind>,
        cache: CacheNative<MayAllocateDuringUnwind>,
        /// Where code is.
        code: Vec<Range<u64>>,
    }

    impl Frames {
        pub(in crate::stats::hogs) fn new() -> Self {
            Self {
                changes: None,
                unwinder: UnwinderNative::new(),
                cache: CacheNative::new(),
                code: Vec::new(),
            }
        }

        /// The innermost first; each within the instruction that called.
        pub(in crate::stats::hogs) fn of(&mut self, stack: &Stack) -> Vec<usize> {
            self.refresh();
            let at = stack.registers;
            let mut read = |address: u64| {
                let offset = address.checked_sub(at.stack).ok_or(())? as usize;
                let word = stack
                    .bytes
                    .get(offset..offset.saturating_add(8))
                    .ok_or(())?;
                Ok(u64::from_ne_bytes(word.try_into().map_err(drop)?))
            };
            let mut registers = registers(stack);
            let mut frame = FrameAddress::from_instruction_pointer(at.instruction);
            let mut found = Vec::new();
            let mut is_guessed = at.frame.is_some();
            while found.len() < DEPTH_MAX {
                let cache = &mut self.cache;
                let next = self
                    .unwinder
                    .unwind_frame(frame, &mut registers, cache, &mut read);
                match next {
                    Err(_) if !is_guessed => {
                        is_guessed = true;
                        let at = frame.address_for_lookup();
                        guess(&mut registers, at, &self.code, &read);
                        continue;
                    }
                    Ok(Some(caller)) => {
                        found.push(frame.address_for_lookup() as usize);
                        let Some(caller) = FrameAddress::from_return_address(caller) else {
                            return found;
                        };
                        frame = caller;
                    }
                    Ok(None) | Err(_) => break,
                }
            }
            found.push(frame.address_for_lookup() as usize);
            found
        }

        fn refresh(&mut self) {
            let changes = stack::changes();
            if self.changes == Some(changes) {
                return;
            }
            self.changes = Some(changes);
            self.unwinder = UnwinderNative::new();
            self.code.clear();
            for module in stack::modules() {
                let relative = |range: Range<u64>| {
                    range.start.wrapping_sub(module.base)..range.end.wrapping_sub(module.base)
                };
                let tables = ExplicitModuleSectionInfo {
                    base_svma: 0,
                    eh_frame_svma: Some(relative(module.frames_at)),
                    eh_frame: Some(module.frames),
                    eh_frame_hdr_svma: Some(relative(module.index_at)),
                    eh_frame_hdr: Some(module.index),
                    ..ExplicitModuleSectionInfo::default()
                };
                let (memory, base) = (module.memory, module.base);
                self.code.push(memory.clone());
                self.unwinder
                    .add_module(Module::new(module.name, memory, base, tables));
            }
        }
    }

    /// How far above the stack pointer a frame's record is looked for, in words.
    const GUESS_MAX: u64 = 512;

    /// How far a place in a function is from its beginning, at most.
    const FUNCTION_MAX: u64 = 1 << 15;

    /// Of a thread that is blocked the kernel does not tell the frame pointer, which the standard
    /// library's functions stand on. It points to a record of two words: what the caller had in
    /// that register, and an address in code, to which the function at `place` returns. If a call
    /// of a function that begins shortly before `place` stands before that address, it is the one.
    /// Calls by a register do not show where they lead to. Then it is most likely the first pair
    /// whose first word is further up on the stack, as that of a caller which stands on such a
    /// record itself; functions may be missing in between.
    #[cfg(target_arch = "x86_64")]
    fn guess(
        registers: &mut UnwindRegsNative,
        place: u64,
        code: &[Range<u64>],
        read: &impl Fn(u64) -> Result<u64, ()>,
    ) {
        let start = registers.sp();
        let is_code = |address| code.iter().any(|range| range.contains(&address));
        let far = start.saturating_add(1 << 20);
        let is_record = |&at: &u64| {
            let caller = read(at).is_ok_and(|caller| caller > at && caller < far);
            caller && read(at + 8).is_ok_and(is_code)
        };
        let is_of_place = |&at: &u64| {
            let returns = read(at + 8).ok().filter(|&address| is_code(address));
            let called = returns.and_then(called_before);
            called.is_some_and(|begin| begin <= place && place - begin < FUNCTION_MAX)
        };
        let mut places = (0..GUESS_MAX).map(|word| start.saturating_add(8 * word));
        let found = places
            .clone()
            .find(is_of_place)
            .or_else(|| places.find(is_record));
        if let Some(at) = found {
            registers.set_bp(at);
        }
    }

    /// Where the call leads to that stands before an address in code, if it says so: by a distance,
    /// or by the place of a pointer, as calls between crates do.
    #[cfg(target_arch = "x86_64")]
    fn called_before(address: u64) -> Option<u64> {
        let before: [u8; 6] = read_memory(address.checked_sub(6)?)?;
        let &[first, second, ref distance @ ..] = &before;
        let distance = i32::from_le_bytes(*distance);
        let at = address.wrapping_add_signed(distance.into());
        match (first, second) {
            (_, 0xe8) => Some(at),
            (0xff, 0x15) => read_memory(at).map(u64::from_le_bytes),
            _ => None,
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn read_memory<const N: usize>(address: u64) -> Option<[u8; N]> {
        let mut bytes = [0; N];
        (stack::copy_memory(address, &mut bytes) == N).then_some(bytes)
    }

    #[cfg(target_arch = "aarch64")]
    fn guess(
        _: &mut UnwindRegsNative,
        _: u64,
        _: &[Range<u64>],
        _: &impl Fn(u64) -> Result<u64, ()>,
    ) {
    }

    #[cfg(target_arch = "x86_64")]
    fn registers(stack: &Stack) -> UnwindRegsNative {
        let at = stack.registers;
        UnwindRegsNative::new(at.instruction, at.stack, at.frame.unwrap_or(at.stack))
    }

    #[cfg(target_arch = "aarch64")]
    fn registers(stack: &Stack) -> UnwindRegsNative {
        let at = stack.registers;
        UnwindRegsNative::new(at.link, at.stack, at.frame.unwrap_or(at.stack))
    }
}

#[cfg(not(all(
    feature = "hog-stacks",
    any(target_arch = "x86_64", target_arch = "aarch64")
)))]
mod imp {
    use super::Stack;

    /// No stacks are taken here.
    pub(in crate::stats::hogs) struct Frames;

    impl Frames {
        pub(in crate::stats::hogs) fn new() -> Self {
            Self
        }

        pub(in crate::stats::hogs) fn of(&mut self, _: &Stack) -> Vec<usize> {
            Vec::new()
        }
    }
}
