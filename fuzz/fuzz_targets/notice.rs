#![no_main]
libfuzzer_sys::fuzz_target!(|data: &[u8]| tillerman_fuzz::entry::notice(data));
