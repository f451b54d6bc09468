//! A slab: values by index, whose indices are reused.

/// Values by index. A freed index is reused.
#[derive(Debug)]
pub(super) struct Slots<T> {
    values: Vec<T>,
    free: Vec<u32>,
}

impl<T> Slots<T> {
    pub fn new() -> Slots<T> {
        Slots { values: Vec::new(), free: Vec::new() }
    }

    pub fn insert(&mut self, value: T) -> u32 {
        match self.free.pop() {
            Some(number) => {
                self.values[number as usize] = value;
                number
            }
            None => {
                self.values.push(value);
                (self.values.len() - 1) as u32
            }
        }
    }

    pub fn get(&mut self, number: u32) -> &mut T {
        &mut self.values[number as usize]
    }

    /// The number may be used again.
    pub fn remove(&mut self, number: u32) {
        self.free.push(number);
    }
}
