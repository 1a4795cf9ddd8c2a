//! The JVM of this process: started once, at the first class that is loaded, and never stopped.

use crate::env::{Env, Java, JavaError};
use crate::find::{self, Installation};
use crate::runtime::{RUNTIME_JAR, Runtime};
use jni_sys::{
    JNI_OK, JNI_VERSION_1_8, JNIEnv, JavaVM, JavaVMAttachArgs, JavaVMInitArgs, JavaVMOption, jint,
};
use std::cell::Cell;
use std::ffi::{CStr, CString, c_char, c_void};
use std::fs::File;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::ptr;
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

/// How the JVM is started. It starts once in a process: the first settings count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JavaSettings {
    /// The heap, bytes.
    pub heap_bytes_max: u64,
    /// How long a call may run in Java code between two batches; `None` for no limit.
    pub call_limit: Option<Duration>,
    /// How much longer one that was stopped may take to end before the process does, which then
    /// has a thread that nothing else stops.
    pub stuck_limit: Duration,
    /// Threads for non-transactional procedures.
    pub nontransactional_threads_max: u32,
    /// What a batch of a procedure may hold, bytes.
    pub batch_bytes_max: u64,
    /// More options for the JVM, such as `-Xlog:gc`.
    pub options: Vec<String>,
}

impl Default for JavaSettings {
    fn default() -> JavaSettings {
        JavaSettings {
            heap_bytes_max: 1 << 30,
            call_limit: None,
            stuck_limit: Duration::from_secs(10),
            nontransactional_threads_max: 20,
            batch_bytes_max: 512 << 20,
            options: Vec::new(),
        }
    }
}

/// The running JVM.
pub(crate) struct Machine {
    vm: *mut JavaVM,
    /// The classes and methods of the runtime that the host calls.
    pub(crate) runtime: Runtime,
}

// SAFETY: the JVM's own functions may be called from all threads; the references in `runtime`
// are global ones and method numbers, which all threads may use.
unsafe impl Send for Machine {}
// SAFETY: as above; nothing in it changes once it is made.
unsafe impl Sync for Machine {}

static MACHINE: OnceLock<Machine> = OnceLock::new();
/// Held while the JVM starts. True once a start failed inside the JVM, which allows no second.
static STARTING: Mutex<bool> = Mutex::new(false);

type CreateVm = unsafe extern "system" fn(*mut *mut JavaVM, *mut *mut c_void, *mut c_void) -> jint;

/// The JVM, which starts if it has not.
///
/// # Errors
/// There is no usable Java, or it refused to start: what to do.
pub(crate) fn machine(settings: &JavaSettings) -> Java<&'static Machine> {
    if let Some(machine) = MACHINE.get() {
        return Ok(machine);
    }
    let mut failed = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(machine) = MACHINE.get() {
        return Ok(machine);
    }
    if RUNTIME_JAR.is_empty() {
        return Err(JavaError::new(
            "This binary was built without Java procedures: build it again where a JDK (17 or \
             newer, with `javac`) and Maven are installed",
        ));
    }
    if *failed {
        return Err(JavaError::new(
            "The JVM failed to start before; restart the server to try again",
        ));
    }
    let installation = find::find().map_err(JavaError::new)?;
    let create = load(&installation)?;
    // On a thread of its own, which the JVM takes as its first.
    let settings = settings.clone();
    let home = installation.home.display().to_string();
    let starter = std::thread::Builder::new().name("java start".to_string());
    let started = starter
        .spawn(move || start(create, &settings))
        .map_err(|error| JavaError::new(format!("no thread for Java: {error}")))?
        .join()
        .unwrap_or_else(|_| Err(JavaError::new("the start of Java panicked")));
    *failed = started.is_err();
    let machine = started
        .map_err(|error| JavaError::new(format!("The Java at {home} did not start: {error}")))?;
    tracing::info!(home, "Java started");
    Ok(MACHINE.get_or_init(|| machine))
}

/// The JVM if it runs.
pub(crate) fn running() -> Option<&'static Machine> {
    MACHINE.get()
}

/// Opens the JVM's library, which stays open.
fn load(installation: &Installation) -> Java<CreateVm> {
    let path = CString::new(installation.library.as_os_str().as_bytes())
        .map_err(|_| JavaError::new("the path of the JVM holds a zero byte"))?;
    // SAFETY: the texts end with zeros. Loading runs the library's initializers: this is the JVM
    // that the administrator named. The symbol has the type that the JNI specification gives it.
    unsafe {
        let library = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_GLOBAL);
        if library.is_null() {
            let reason = CStr::from_ptr(libc::dlerror()).to_string_lossy().into_owned();
            return Err(JavaError::new(format!("The JVM cannot be loaded: {reason}")));
        }
        let symbol = libc::dlsym(library, c"JNI_CreateJavaVM".as_ptr());
        if symbol.is_null() {
            let shown = installation.library.display();
            return Err(JavaError::new(format!(
                "{shown} is not a JVM: it has no JNI_CreateJavaVM"
            )));
        }
        Ok(std::mem::transmute::<*mut c_void, CreateVm>(symbol))
    }
}

/// The JVM's command line.
fn options(settings: &JavaSettings, class_path: &str) -> Vec<String> {
    let mut options = vec![
        format!("-Djava.class.path={class_path}"),
        // Signals are the host's: Ctrl-C stops it in order.
        "-Xrs".to_string(),
        format!("-Xmx{}", settings.heap_bytes_max),
        // Native code that Java calls runs the executor on the same stack: deep recursion must
        // end in Java, where it is an exception.
        "-XX:StackShadowPages=50".to_string(),
        // Calls live for microseconds: a collector without barriers is the quickest for them.
        "-XX:+UseParallelGC".to_string(),
    ];
    options.extend(settings.options.iter().cloned());
    options
}

fn start(create: CreateVm, settings: &JavaSettings) -> Java<Machine> {
    let jar = runtime_file().map_err(|error| {
        JavaError::new(format!("the runtime of Java procedures cannot be laid out: {error}"))
    })?;
    let mut texts = Vec::new();
    for option in options(settings, &jar) {
        texts.push(CString::new(option).map_err(|error| {
            JavaError::new(format!("an option of the JVM holds a zero byte: {error}"))
        })?);
    }
    let option = |text: &CString| JavaVMOption {
        optionString: text.as_ptr().cast::<c_char>().cast_mut(),
        extraInfo: ptr::null_mut(),
    };
    let mut list: Vec<JavaVMOption> = texts.iter().map(option).collect();
    let mut arguments = JavaVMInitArgs {
        version: JNI_VERSION_1_8,
        nOptions: list.len() as jint,
        options: list.as_mut_ptr(),
        ignoreUnrecognized: 0,
    };
    let (mut vm, mut env) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: the structures are as JNI describes them, and live through the call.
    let status = unsafe { create(&mut vm, &mut env, (&raw mut arguments).cast()) };
    if status != JNI_OK {
        return Err(JavaError::new(format!(
            "JNI_CreateJavaVM gave {status}; the JVM says more on the server's error output. Its \
             options were {}",
            options(settings, "...").join(" ")
        )));
    }
    // SAFETY: the JVM gave this table to this thread.
    let env = unsafe { Env::new(env.cast()) };
    let runtime = env.frame(|env| Runtime::find(env, settings));
    let machine = Machine { vm, runtime: runtime? };
    // SAFETY: the thread is attached, and uses nothing of the JVM from here on.
    unsafe { ((**vm).DetachCurrentThread.expect("the JVM has the function"))(vm) };
    Ok(machine)
}

/// Where the JVM finds the runtime's classes: a file without a name that lives as long as the
/// process.
#[cfg(target_os = "linux")]
fn runtime_file() -> std::io::Result<String> {
    use std::os::fd::{FromRawFd, IntoRawFd};
    // SAFETY: the name ends with a zero; the result is checked.
    let file = unsafe { libc::memfd_create(c"lockstep-runtime.jar".as_ptr(), 0) };
    if file < 0 {
        return Err(std::io::Error::last_os_error());
    }
    // SAFETY: the descriptor was made right above, and has no other owner.
    let mut file = unsafe { File::from_raw_fd(file) };
    file.write_all(RUNTIME_JAR)?;
    Ok(format!("/proc/self/fd/{}", file.into_raw_fd()))
}

/// Where the JVM finds the runtime's classes: a file of this process.
#[cfg(not(target_os = "linux"))]
fn runtime_file() -> std::io::Result<String> {
    let name = format!("lockstep-runtime-{}.jar", std::process::id());
    let path = std::env::temp_dir().join(name);
    File::create(&path)?.write_all(RUNTIME_JAR)?;
    Ok(path.display().to_string())
}

thread_local! {
    /// The calling thread's JNI, once it is attached.
    static ATTACHED: Cell<*mut JNIEnv> = const { Cell::new(ptr::null_mut()) };
    /// Detaches the thread when it ends.
    static DETACH: Detach = const { Detach };
}

struct Detach;

impl Drop for Detach {
    fn drop(&mut self) {
        let attached = ATTACHED.replace(ptr::null_mut());
        if let (false, Some(machine)) = (attached.is_null(), MACHINE.get()) {
            // SAFETY: this thread was attached, has no Java frames, and ends.
            unsafe {
                let detach = (**machine.vm).DetachCurrentThread;
                (detach.expect("the JVM has the function"))(machine.vm);
            }
        }
    }
}

impl Machine {
    /// The JNI of the calling thread, which is attached if it was not, until it ends.
    #[inline]
    pub(crate) fn env(&self) -> Java<Env> {
        let env = ATTACHED.get();
        if !env.is_null() {
            // SAFETY: the JVM gave it to this thread, which is attached until it ends.
            return Ok(unsafe { Env::new(env) });
        }
        self.attach()
    }

    #[cold]
    fn attach(&self) -> Java<Env> {
        let name = std::thread::current().name().unwrap_or("host").to_string();
        let name = CString::new(name).unwrap_or_default();
        let mut arguments = JavaVMAttachArgs {
            version: JNI_VERSION_1_8,
            name: name.as_ptr().cast_mut(),
            group: ptr::null_mut(),
        };
        let mut env = ptr::null_mut();
        // SAFETY: the JVM runs; the structure lives through the call. A daemon does not keep the
        // process alive.
        let status = unsafe {
            let attach = (**self.vm).AttachCurrentThreadAsDaemon;
            let attach = attach.expect("the JVM has the function");
            attach(self.vm, &mut env, (&raw mut arguments).cast())
        };
        if status != JNI_OK {
            return Err(JavaError::new(format!("Java takes no more threads (JNI says {status})")));
        }
        ATTACHED.set(env.cast());
        DETACH.with(|_| {});
        // SAFETY: the JVM gave it to this thread.
        Ok(unsafe { Env::new(env.cast()) })
    }
}
