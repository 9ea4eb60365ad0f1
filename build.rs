//! Gives the shared object its name (`libcollect.so.0`, the major version of the ABI) and keeps it loaded after
//! `dlclose`, since it owns threads.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcollect.so.0");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
