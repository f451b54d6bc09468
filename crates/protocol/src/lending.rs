//! A stream that one of several users has lent to others, which a process serves: the *lender*.
//!
//! What the borrowers have written precedes what another user sends later. So that user *asks*, and
//! the lender *answers* once it has sent everything that was written by then. A user that ends a
//! direction does so itself once it has the answer. If it waits no longer, it leaves the end to the
//! lender, or ends the direction after all if there is no lender any more: exactly once in each
//! case.
//!
//! A part of shared memory for processes that may be killed at any time; all zeroes, it is not lent.

use crate::sync::{AtomicU32, Ordering, exchange, observe, publish};

/// How often a stream is lent now, and what its users and lenders have agreed on.
#[derive(Debug, Default)]
#[repr(C)]
pub struct Lending {
    loans: AtomicU32,
    /// The thread that answers; zero if there is none.
    lender: AtomicU32,
    asked: AtomicU32,
    answered: AtomicU32,
    /// Whether a lender is to end the direction.
    end_due: AtomicU32,
}

/// The number of a question. They are numbered from one on, and in turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question(u32);

/// Which lender can answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answerer {
    /// A lender that lives.
    Lives,
    /// None yet: the lender has still to begin.
    Begins,
    /// None any more.
    None,
}

impl Lending {
    /// As it was before all loans. Nobody else may use it.
    pub fn reset(&self) {
        for word in [&self.loans, &self.lender, &self.asked, &self.answered, &self.end_due] {
            word.store(0, Ordering::Relaxed);
        }
    }

    /// Counts a loan, before its borrowers can write.
    pub fn begin(&self) {
        self.loans.fetch_add(1, exchange());
    }

    /// Takes back a loan that could not be made.
    pub fn withdraw(&self) {
        self.loans.fetch_sub(1, exchange());
    }

    /// Whether it is lent now.
    #[inline]
    pub fn is_lent(&self) -> bool {
        self.loans.load(observe()) > 0
    }

    /// Whether it is lent more than once now.
    pub fn is_lent_again(&self) -> bool {
        self.loans.load(observe()) > 1
    }

    /// A user: asks the lender to send what was written by now.
    pub fn ask(&self) -> Question {
        Question(self.asked.fetch_add(1, exchange()).wrapping_add(1))
    }

    /// Whether all is sent that was written before a question.
    pub fn is_answered(&self, question: Question) -> bool {
        self.answered.load(observe()).wrapping_sub(question.0) as i32 >= 0
    }

    /// Which lender can answer. A loan whose lender does not live is over.
    pub fn answerer(&self, lives: impl Fn(u32) -> bool) -> Answerer {
        match self.lender.load(observe()) {
            0 if self.is_lent() => Answerer::Begins,
            0 => Answerer::None,
            lender if lives(lender) => Answerer::Lives,
            dead => {
                if self.lender.compare_exchange(dead, 0, exchange(), Ordering::Relaxed).is_ok() {
                    self.withdraw();
                }
                if self.is_lent() { Answerer::Begins } else { Answerer::None }
            }
        }
    }

    /// A user that waits no longer: leaves the end of the direction to the lender. False if there is
    /// none any more, and the user ends it after all.
    #[must_use = "if nobody else ends the direction, the caller does"]
    pub fn leave_end(&self) -> bool {
        // A thread that ends a loan changes both words too, in the other order: one of the two sees
        // the other.
        self.end_due.swap(1, exchange());
        self.is_lent() || !self.takes_end()
    }

    /// Whether a lender is still to end the direction.
    pub fn is_end_due(&self) -> bool {
        self.end_due.load(observe()) != 0
    }

    /// Takes the end of the direction upon the caller, if a user has left it to a lender.
    #[must_use = "who takes the end upon itself ends the direction"]
    pub fn takes_end(&self) -> bool {
        self.end_due.swap(0, exchange()) != 0
    }

    /// A lender: begins to answer for the thread `own`, if none does that lives.
    pub fn serve(&self, own: u32, lives: impl Fn(u32) -> bool) {
        let is_free = |lender| (lender == 0 || !lives(lender)).then_some(own);
        // Another lender answers otherwise.
        let _ = self.lender.fetch_update(exchange(), Ordering::Acquire, is_free);
    }

    /// The latest question. The caller must take it before it checks what the borrowers have
    /// written.
    pub fn asked(&self) -> Question {
        Question(self.asked.load(observe()))
    }

    /// All is sent that had been written by this question, and those before.
    pub fn answer(&self, question: Question) {
        self.answered.store(question.0, publish());
    }

    /// Ends the loan of the thread `own`. Whether the direction is to be ended, by the caller: it was
    /// left to a lender, and there is no other.
    #[must_use = "if the end was left to this loan, the caller ends the direction"]
    pub fn end(&self, own: u32) -> bool {
        let _ = self.lender.compare_exchange(own, 0, exchange(), Ordering::Relaxed);
        self.withdraw();
        !self.is_lent() && self.takes_end()
    }
}
