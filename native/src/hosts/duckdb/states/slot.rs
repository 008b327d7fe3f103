//! A state of an aggregate: a pointer to what it holds, which copies of the state share.

use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use crate::hosts::duckdb::api::State;
use crate::kernel::block::prefetch_at;

/// Bytes of a state: a pointer, and four so that states in one array are not aligned.
pub const SIZE: usize = size_of::<usize>() + 4;

/// The pointer inside an aggregate state to what it holds, which copies of the state share: null
/// before the first row.
pub struct Slot<T>(State, PhantomData<T>);

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<T> {}

impl<T> Slot<T> {
    /// That of a state.
    pub fn of(state: State) -> Slot<T> {
        Slot(state, PhantomData)
    }

    /// Ask for the memory of the state.
    pub fn expect(self) {
        prefetch_at(self.0.cast::<u8>(), SIZE);
    }

    /// Begin a state, which holds nothing.
    ///
    /// # Safety
    /// The state has `SIZE` bytes.
    pub unsafe fn begin(self) {
        // SAFETY: see the caller's promise; states need not be aligned.
        unsafe { self.0.cast::<*const T>().write_unaligned(std::ptr::null()) }
    }

    /// # Safety
    /// The state was begun, and holds a `T` if anything.
    unsafe fn pointer(self) -> *const T {
        // SAFETY: as above.
        unsafe { self.0.cast::<*const T>().read_unaligned() }
    }

    /// What it holds.
    ///
    /// # Safety
    /// As `pointer`; nothing changes the state while the result is in use.
    pub unsafe fn get<'s>(self) -> Option<&'s T> {
        // SAFETY: see the caller's promise; it comes of `Arc::into_raw`.
        unsafe { self.pointer().as_ref() }
    }

    /// Let a state that holds nothing hold a value.
    ///
    /// # Safety
    /// As `begin`.
    pub unsafe fn put(self, value: Arc<T>) {
        // SAFETY: see the caller's promise.
        unsafe { self.0.cast::<*const T>().write_unaligned(Arc::into_raw(value)) }
    }

    /// Let a state that holds nothing hold what another does.
    ///
    /// # Safety
    /// As `pointer`, of both.
    pub unsafe fn share(self, other: Slot<T>) {
        // SAFETY: see the caller's promise; what is held comes of `Arc::into_raw`.
        unsafe {
            let value = other.pointer();
            if !value.is_null() {
                Arc::increment_strong_count(value);
                self.put(Arc::from_raw(value));
            }
        }
    }

    /// Let go of what it holds.
    ///
    /// # Safety
    /// As `pointer`; references to it are no longer in use.
    pub unsafe fn clear(self) {
        // SAFETY: see the caller's promise; its count falls once, as its pointer is cleared.
        unsafe {
            let value = self.pointer();
            self.begin();
            if !value.is_null() {
                drop(Arc::from_raw(value));
            }
        }
    }
}

// States of several threads may share what they hold.
impl<T: Clone + Send + Sync> Slot<T> {
    /// What it holds, to be changed: a copy if others share it.
    ///
    /// # Safety
    /// As `get`; no other thread uses the state.
    pub unsafe fn own<'s>(self) -> Option<&'s mut T> {
        // SAFETY: see the caller's promise; with a count of one no other state has it, and no one
        // else can come to have it but through this state.
        unsafe {
            let value = self.pointer();
            if value.is_null() {
                return None;
            }
            let value = ManuallyDrop::new(Arc::from_raw(value));
            if Arc::strong_count(&value) > 1 {
                self.put(Arc::new(T::clone(&value)));
                drop(ManuallyDrop::into_inner(value));
            } else {
                // What other threads did with it before they let go of it is done.
                fence(Ordering::Acquire);
            }
            self.pointer().cast_mut().as_mut()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_share_a_value_until_one_is_changed() {
        let mut states = [[0_u8; SIZE]; 3];
        let [one, two, none] = states.each_mut().map(|state| Slot::of(state.as_mut_ptr().cast()));
        // SAFETY: three states of that size, of one thread.
        unsafe {
            [one, two, none].into_iter().for_each(|slot| slot.begin());
            one.put(Arc::new(vec![1]));
            two.share(one);
            one.share(none);
            assert!(none.own().is_none() && std::ptr::eq(one.get().unwrap(), two.get().unwrap()));
            two.own().unwrap().push(2);
            assert_eq!((one.get(), two.get()), (Some(&vec![1]), Some(&vec![1, 2])));
            let before: *const Vec<i32> = two.get().unwrap();
            two.own().unwrap().push(3);
            assert!(std::ptr::eq(before, two.get().unwrap()));
            [one, two, none].into_iter().for_each(|slot| slot.clear());
            assert!(one.get().is_none());
        }
    }
}
