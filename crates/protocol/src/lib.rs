//! Protocol state machines without a clock, a queue or a socket: time goes in, what to do comes out.
