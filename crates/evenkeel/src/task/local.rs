//! Values that belong to a task.
//!
//! The value is kept in the future that [`LocalKey::scope`] returns, and stands in a local of the
//! thread only while that future is polled. A poll never changes its thread: when a worker's seat
//! passes to another thread, the old thread finishes the poll, and the new one begins with the
//! locals of a fresh thread. So nobody sees the value of another task.

use std::cell::RefCell;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll};

use pin_project_lite::pin_project;

use crate::sync::thread;

/// Declares keys of values that belong to a task; see [`LocalKey`](crate::task::LocalKey).
///
/// # Examples
///
/// ```
/// evenkeel::task_local! {
///     /// Which request is served.
///     pub static REQUEST: u64;
///     static USER: String;
/// }
///
/// # #[evenkeel::main]
/// # async fn main() {
/// let served = REQUEST.scope(7, async {
///     evenkeel::task::yield_now().await;
///     format!("request {}", REQUEST.get())
/// });
/// assert_eq!(served.await, "request 7");
/// assert!(USER.try_with(|user| user.clone()).is_err());
/// # }
/// ```
#[macro_export]
macro_rules! task_local {
    ($($(#[$attribute:meta])* $visible:vis static $name:ident: $type:ty);* $(;)?) => {$(
        $(#[$attribute])*
        $visible static $name: $crate::task::LocalKey<$type> = {
            ::std::thread_local! {
                static STORED: ::core::cell::RefCell<::core::option::Option<$type>> =
                    const { ::core::cell::RefCell::new(::core::option::Option::None) };
            }
            $crate::task::LocalKey::__new(::core::stringify!($name), &STORED)
        };
    )*};
}

/// The key of a value that belongs to a task, declared with [`task_local!`](crate::task_local).
///
/// Unlike a thread's local, it has no initial value. [`scope`](Self::scope) gives a future its
/// value, which everything in that future sees, on whatever thread it is polled. Scopes of one key
/// nest: within the inner one its value hides the other. A task that is spawned inside a scope does
/// not inherit the value; give it a scope of its own.
pub struct LocalKey<T: 'static> {
    name: &'static str,
    stored: &'static thread::LocalKey<RefCell<Option<T>>>,
}

impl<T: 'static> LocalKey<T> {
    #[doc(hidden)]
    pub const fn __new(
        name: &'static str,
        stored: &'static thread::LocalKey<RefCell<Option<T>>>,
    ) -> Self {
        Self { name, stored }
    }

    /// Gives `future` this value, for as long as it lives, its drop included.
    ///
    /// # Panics
    ///
    /// The future that is returned panics when it is polled inside [`with`](Self::with) of the same
    /// key, as with another crate's `block_on`; and when it is polled after its end.
    ///
    /// # Cancel safety
    ///
    /// As that of `future`. The value is dropped with it.
    ///
    /// # Examples
    ///
    /// ```
    /// evenkeel::task_local! {
    ///     static DEPTH: u32;
    /// }
    ///
    /// # #[evenkeel::main]
    /// # async fn main() {
    /// let inner = DEPTH.scope(2, async { DEPTH.get() });
    /// let outer = DEPTH.scope(1, async { (DEPTH.get(), inner.await, DEPTH.get()) });
    /// assert_eq!(outer.await, (1, 2, 1));
    /// # }
    /// ```
    pub fn scope<F: Future>(&'static self, value: T, future: F) -> TaskLocalFuture<T, F> {
        TaskLocalFuture {
            key: self,
            value: Some(value),
            future: Some(future),
        }
    }

    /// Calls `function` with this value set.
    ///
    /// # Panics
    ///
    /// If called inside [`with`](Self::with) of the same key, or if `function` panics.
    ///
    /// # Examples
    ///
    /// ```
    /// evenkeel::task_local! {
    ///     static NUMBER: u32;
    /// }
    ///
    /// assert_eq!(NUMBER.sync_scope(1, || NUMBER.get()), 1);
    /// ```
    #[track_caller]
    pub fn sync_scope<R>(&'static self, value: T, function: impl FnOnce() -> R) -> R {
        match self.enter(&mut Some(value), function) {
            Ok(result) => result,
            Err(refused) => panic!("{}", refused.of(self.name)),
        }
    }

    /// Calls `access` with the value.
    ///
    /// # Panics
    ///
    /// If there is none, as this runs outside of a [`scope`](Self::scope).
    #[track_caller]
    pub fn with<R>(&'static self, access: impl FnOnce(&T) -> R) -> R {
        match self.try_with(access) {
            Ok(result) => result,
            Err(error) => panic!("{error}"),
        }
    }

    /// Calls `access` with the value.
    ///
    /// # Errors
    ///
    /// There is none, as this runs outside of a [`scope`](Self::scope).
    pub fn try_with<R>(&'static self, access: impl FnOnce(&T) -> R) -> Result<R, AccessError> {
        let mut access = Some(access);
        let found = self.stored.try_with(|stored| {
            let stored = stored.borrow();
            let access = access.take()?;
            stored.as_ref().map(access)
        });
        found.ok().flatten().ok_or(AccessError { name: self.name })
    }

    /// Runs `function` with `value` in the thread's local, and takes it out again, also if that
    /// panics.
    fn enter<R>(
        &'static self,
        value: &mut Option<T>,
        function: impl FnOnce() -> R,
    ) -> Result<R, Refused> {
        struct Restore<'a, T: 'static>(&'static LocalKey<T>, &'a mut Option<T>);

        impl<T> Drop for Restore<'_, T> {
            fn drop(&mut self) {
                // What `function` borrowed it has given back, and the local was there before it.
                let swapped = self.0.swap(self.1);
                debug_assert!(swapped.is_ok(), "a scope ends where it began");
            }
        }

        self.swap(value)?;
        let _restore = Restore(self, value);
        Ok(function())
    }

    fn swap(&'static self, value: &mut Option<T>) -> Result<(), Refused> {
        let swapped = self.stored.try_with(|stored| {
            let mut stored = stored.try_borrow_mut().map_err(|_| Refused::InUse)?;
            mem::swap(&mut *stored, value);
            Ok(())
        });
        swapped.unwrap_or(Err(Refused::ThreadEnds))
    }
}

impl<T: Clone + 'static> LocalKey<T> {
    /// A clone of the value.
    ///
    /// # Panics
    ///
    /// As [`with`](Self::with).
    #[track_caller]
    pub fn get(&'static self) -> T {
        self.with(T::clone)
    }

    /// A clone of the value.
    ///
    /// # Errors
    ///
    /// As [`try_with`](Self::try_with).
    pub fn try_get(&'static self) -> Result<T, AccessError> {
        self.try_with(T::clone)
    }
}

impl<T: 'static> fmt::Debug for LocalKey<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LocalKey").field(&self.name).finish()
    }
}

/// Why a scope cannot be entered.
#[derive(Debug)]
enum Refused {
    /// The value of an outer scope is borrowed.
    InUse,
    ThreadEnds,
}

impl Refused {
    fn of(&self, name: &str) -> String {
        match self {
            Self::InUse => format!(
                "a scope of the task-local `{name}` was entered inside `{name}.with`, which \
                 borrows the value of another; copy what is needed, and leave `with` first"
            ),
            Self::ThreadEnds => {
                format!("a scope of the task-local `{name}` was entered while its thread ends")
            }
        }
    }
}

pin_project! {
    /// The future of [`LocalKey::scope`].
    pub struct TaskLocalFuture<T, F>
    where
        T: 'static,
    {
        key: &'static LocalKey<T>,
        // In the thread's local while the future is polled or dropped.
        value: Option<T>,
        // `None` once it has completed.
        #[pin]
        future: Option<F>,
    }

    impl<T: 'static, F> PinnedDrop for TaskLocalFuture<T, F> {
        fn drop(this: Pin<&mut Self>) {
            let mut this = this.project();
            if mem::needs_drop::<F>() && this.future.is_some() {
                let key = *this.key;
                // If the scope is refused, the future is dropped behind this, without its value.
                let _ = key.enter(this.value, || this.future.set(None));
            }
        }
    }
}

impl<T: 'static, F> TaskLocalFuture<T, F> {
    /// Takes the value out: after the future has completed, to have it back. Before that, the
    /// future goes on without it. `None` if it has been taken.
    ///
    /// # Examples
    ///
    /// ```
    /// # #[evenkeel::main]
    /// # async fn main() {
    /// use std::cell::Cell;
    /// use std::pin::pin;
    ///
    /// evenkeel::task_local! {
    ///     static COUNT: Cell<u32>;
    /// }
    ///
    /// let mut counted = pin!(COUNT.scope(Cell::new(0), async {
    ///     COUNT.with(|count| count.set(count.get() + 1));
    /// }));
    /// counted.as_mut().await;
    /// assert_eq!(counted.take_value(), Some(Cell::new(1)));
    /// # }
    /// ```
    pub fn take_value(self: Pin<&mut Self>) -> Option<T> {
        self.project().value.take()
    }
}

impl<T: 'static, F: Future> Future for TaskLocalFuture<T, F> {
    type Output = F::Output;

    #[track_caller]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let mut this = self.project();
        let key = *this.key;
        let name = key.name;
        assert!(
            this.future.is_some(),
            "a scope of the task-local `{name}` was polled after its end"
        );
        let polled = key.enter(this.value, || {
            let polled = this.future.as_mut().as_pin_mut().map(|f| f.poll(cx));
            if let Some(Poll::Ready(_)) = polled {
                // Its drop sees the value too.
                this.future.set(None);
            }
            polled
        });
        match polled {
            Ok(polled) => polled.expect("the future was there a moment ago"),
            Err(refused) => panic!("{}", refused.of(name)),
        }
    }
}

impl<T: fmt::Debug + 'static, F> fmt::Debug for TaskLocalFuture<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskLocalFuture")
            .field("key", &self.key.name)
            .field("value", &self.value)
            .finish_non_exhaustive()
    }
}

/// A task-local has no value here: the error of [`LocalKey::try_with`].
#[derive(Clone, PartialEq, Eq)]
pub struct AccessError {
    name: &'static str,
}

impl fmt::Display for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = self.name;
        write!(
            f,
            "the task-local `{name}` has no value here: it is set inside `{name}.scope(value, \
             future)`, and a task that is spawned there needs a scope of its own"
        )
    }
}

impl fmt::Debug for AccessError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AccessError({self})")
    }
}

impl Error for AccessError {}
