//! The tests of the laboratory in one program: linked one by one they took minutes more.

mod adapters;
mod bad_input;
mod campaign;
mod carrier;
mod cluster;
mod combinations;
mod composition;
mod documents;
mod flows;
mod fuzz;
mod host_path;
mod hub;
mod mm1;
mod network;
mod physics;
mod program;
mod published;
mod repository;
mod scilan;
mod slots;
mod slotted;
mod space_time;
mod spec;
mod switches;
mod trace;
mod turns;
