// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//! Compiles a model, runs it on ones and prints each output's sum, through the C API (mpc/C/mpc.h).
//!
//! usage: rustc -L PREFIX/lib -l mpc_c run_model.rs && ./run_model MODEL [POLICY]
use std::ffi::{CStr, CString};
use std::os::raw::{c_char, c_void};
use std::process::exit;
use std::ptr;

/// The used part of the C API. Handles are opaque pointers.
mod mpc {
    use super::{c_char, c_void};

    pub const F32: i32 = 12;

    /// mpc_buffer: memory of one tensor and its size in bytes.
    #[repr(C)]
    pub struct Buffer {
        pub data: *mut c_void,
        pub bytes: usize,
    }

    /// The first members of mpc_compile_options: `size` says how many the caller has.
    #[repr(C)]
    pub struct CompileOptions {
        pub size: usize,
        pub policy: *const c_char,
    }

    /// The first members of mpc_value_info, up to `bytes`.
    #[repr(C)]
    pub struct ValueInfo {
        pub size: usize,
        pub name: *const c_char,
        pub element: i32,
        pub is_optional: i32,
        pub shape: *const i64,
        pub rank: usize,
        pub symbols: *const *const c_char,
        pub bytes: usize,
    }

    /// The first members of mpc_program_info, up to the counts.
    #[repr(C)]
    pub struct ProgramInfo {
        pub size: usize,
        pub name: *const c_char,
        pub target: *const c_char,
        pub policy: *const c_char,
        pub compiler: *const c_char,
        pub input_count: usize,
        pub output_count: usize,
    }

    extern "C" {
        pub fn mpc_error_text() -> *const c_char;
        pub fn mpc_device_create(options: *const c_void, device: *mut *mut c_void) -> i32;
        pub fn mpc_device_destroy(device: *mut c_void);
        pub fn mpc_model_open(path: *const c_char, model: *mut *mut c_void) -> i32;
        pub fn mpc_model_destroy(model: *mut c_void);
        pub fn mpc_compile(
            device: *const c_void,
            model: *const c_void,
            options: *const CompileOptions,
            program: *mut *mut c_void,
        ) -> i32;
        pub fn mpc_program_describe(program: *const c_void, info: *mut ProgramInfo) -> i32;
        pub fn mpc_program_input(program: *const c_void, index: usize, info: *mut ValueInfo)
            -> i32;
        pub fn mpc_program_output(
            program: *const c_void,
            index: usize,
            info: *mut ValueInfo,
        ) -> i32;
        pub fn mpc_run(
            program: *const c_void,
            inputs: *const Buffer,
            input_count: usize,
            outputs: *const Buffer,
            output_count: usize,
            options: *const c_void,
        ) -> i32;
        pub fn mpc_program_destroy(program: *mut c_void);
    }
}

/// Ends the program with the error of the last call, if it failed.
fn check(status: i32) {
    if status != 0 {
        let text = unsafe { CStr::from_ptr(mpc::mpc_error_text()) };
        eprintln!("run_model: {}", text.to_string_lossy());
        exit(1);
    }
}

/// Returns the versioned struct that `get` fills: zeros but for its first member, the size.
fn describe<T>(get: impl Fn(*mut T) -> i32) -> T {
    let mut info: T = unsafe { std::mem::zeroed() };
    unsafe { *(&mut info as *mut T).cast::<usize>() = std::mem::size_of::<T>() };
    check(get(&mut info));
    info
}

/// Memory of one value, aligned to the largest element; ones if its elements are f32, else zeros.
fn allocate(value: &mpc::ValueInfo) -> Vec<u64> {
    let ones = u64::from(1f32.to_bits()) << 32 | u64::from(1f32.to_bits());
    let word = if value.element == mpc::F32 { ones } else { 0 };
    vec![word; value.bytes / 8 + 1]
}

fn buffers(memory: &mut [Vec<u64>], values: &[mpc::ValueInfo]) -> Vec<mpc::Buffer> {
    let pairs = memory.iter_mut().zip(values);
    pairs
        .map(|(words, value)| mpc::Buffer {
            data: words.as_mut_ptr().cast(),
            bytes: value.bytes,
        })
        .collect()
}

fn main() {
    let arguments: Vec<CString> = std::env::args()
        .map(|text| CString::new(text).unwrap())
        .collect();
    if arguments.len() < 2 || arguments.len() > 3 {
        exit(2);
    }
    let options = mpc::CompileOptions {
        size: std::mem::size_of::<mpc::CompileOptions>(),
        policy: arguments
            .get(2)
            .map_or(ptr::null(), |policy| policy.as_ptr()),
    };
    let (mut device, mut model, mut program) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
    unsafe {
        check(mpc::mpc_device_create(ptr::null(), &mut device));
        check(mpc::mpc_model_open(arguments[1].as_ptr(), &mut model));
        check(mpc::mpc_compile(device, model, &options, &mut program));
        mpc::mpc_model_destroy(model);
    }

    let info: mpc::ProgramInfo =
        describe(|info| unsafe { mpc::mpc_program_describe(program, info) });
    let inputs: Vec<_> = (0..info.input_count)
        .map(|i| describe(|value| unsafe { mpc::mpc_program_input(program, i, value) }))
        .collect();
    let outputs: Vec<_> = (0..info.output_count)
        .map(|i| describe(|value| unsafe { mpc::mpc_program_output(program, i, value) }))
        .collect();
    let mut arrays: Vec<_> = inputs.iter().map(allocate).collect();
    let mut results: Vec<_> = outputs.iter().map(allocate).collect();
    let (given, received) = (
        buffers(&mut arrays, &inputs),
        buffers(&mut results, &outputs),
    );
    check(unsafe {
        mpc::mpc_run(
            program,
            given.as_ptr(),
            given.len(),
            received.as_ptr(),
            received.len(),
            ptr::null(),
        )
    });

    for (value, buffer) in outputs.iter().zip(&received) {
        let name = unsafe { CStr::from_ptr(value.name) };
        let shape: Vec<i64> = (0..value.rank)
            .map(|d| unsafe { *value.shape.add(d) })
            .collect();
        print!("{} {:?}", name.to_string_lossy(), shape);
        if value.element == mpc::F32 {
            let floats =
                unsafe { std::slice::from_raw_parts(buffer.data as *const f32, buffer.bytes / 4) };
            print!(
                " sum {:.3}",
                floats.iter().map(|&x| f64::from(x)).sum::<f64>()
            );
        }
        println!();
    }
    unsafe {
        mpc::mpc_program_destroy(program);
        mpc::mpc_device_destroy(device);
    }
}
