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
                        guess(&mut registers, &self.code, &mut read);
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

    /// Of a thread that is blocked the kernel does not tell the frame pointer, which the standard
    /// library's functions stand on. It points to a record of two words: the caller's frame
    /// pointer, which is further up on the stack, and an address in code. The first such pair is
    /// most likely the one; it may also be left from an earlier call, and then a function is
    /// missing in between.
    #[cfg(target_arch = "x86_64")]
    fn guess(
        registers: &mut UnwindRegsNative,
        code: &[Range<u64>],
        read: &mut impl FnMut(u64) -> Result<u64, ()>,
    ) {
        let start = registers.sp();
        let is_code = |address| code.iter().any(|range| range.contains(&address));
        let far = start.saturating_add(1 << 20);
        let is_record = |&at: &u64| {
            let caller = read(at).is_ok_and(|caller| caller > at && caller < far);
            caller && read(at + 8).is_ok_and(is_code)
        };
        let places = (0..GUESS_MAX).map(|word| start.saturating_add(8 * word));
        if let Some(at) = places.into_iter().find(is_record) {
            registers.set_bp(at);
        }
    }

    #[cfg(target_arch = "aarch64")]
    fn guess(
        _: &mut UnwindRegsNative,
        _: &[Range<u64>],
        _: &mut impl FnMut(u64) -> Result<u64, ()>,
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
