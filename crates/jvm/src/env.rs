//! JNI as this crate uses it: a thread's table of functions with a few methods that check for
//! exceptions. Everything that goes back and forth is numbers, byte arrays and byte buffers, so
//! little of JNI is needed.

use jni_sys::{
    JNI_TRUE, JNIEnv, JNINativeMethod, jbyteArray, jclass, jfieldID, jint, jmethodID, jobject,
    jstring, jvalue,
};
use std::ffi::{CStr, CString, c_void};
use std::ptr;

/// An exception that Java code threw and nobody caught.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JavaError {
    /// Its text: the class and the message, or only the message for this crate's own.
    pub message: String,
}

impl std::fmt::Display for JavaError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for JavaError {}

impl JavaError {
    pub(crate) fn new(message: impl Into<String>) -> JavaError {
        JavaError { message: message.into() }
    }
}

/// A result of Java code.
pub(crate) type Java<T> = Result<T, JavaError>;

/// Calls a function of the table.
macro_rules! jni {
    ($env:expr, $function:ident $(, $argument:expr)*) => {{
        let env: *mut JNIEnv = $env.0;
        // The JVM fills the whole table of the version that it was asked for.
        ((**env).$function.expect("the JVM has the function"))(env $(, $argument)*)
    }};
}

/// The JNI of the calling thread, which is attached.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Env(*mut JNIEnv);

/// Room for local references of one piece of work.
const FRAME_REFERENCES: jint = 32;

impl Env {
    /// # Safety
    /// `env` is what the JVM gave the calling thread, and the thread stays attached while this is
    /// used; it is not used on another thread.
    pub(crate) unsafe fn new(env: *mut JNIEnv) -> Env {
        Env(env)
    }

    /// Runs something, and then lets go of the references that it made.
    pub(crate) fn frame<T>(self, work: impl FnOnce(Env) -> Java<T>) -> Java<T> {
        // SAFETY: the thread is attached (`Env::new`); a frame that was pushed is popped.
        let pushed = unsafe { jni!(self, PushLocalFrame, FRAME_REFERENCES) };
        if pushed != 0 {
            return Err(self.take_exception());
        }
        let result = work(self);
        // SAFETY: as above.
        unsafe { jni!(self, PopLocalFrame, ptr::null_mut()) };
        result
    }

    /// Whether an exception is on its way.
    #[inline]
    pub(crate) fn has_exception(self) -> bool {
        // SAFETY: the thread is attached.
        unsafe { jni!(self, ExceptionCheck) == JNI_TRUE }
    }

    /// The exception that is on its way, which ends here.
    #[cold]
    pub(crate) fn take_exception(self) -> JavaError {
        // SAFETY: the thread is attached; the exception is cleared before anything else is called,
        // and so is one that its `toString` throws.
        unsafe {
            let thrown = jni!(self, ExceptionOccurred);
            jni!(self, ExceptionClear);
            if thrown.is_null() {
                return JavaError::new("Java refused without an exception");
            }
            let text = self.text_of(thrown);
            jni!(self, ExceptionClear);
            jni!(self, DeleteLocalRef, thrown);
            JavaError::new(text.unwrap_or_else(|| "an exception that has no text".to_string()))
        }
    }

    /// # Safety
    /// `object` is a live reference of this thread; no exception is on its way.
    unsafe fn text_of(self, object: jobject) -> Option<String> {
        // SAFETY: the caller's promise; each step checks what the one before gave.
        unsafe {
            let class = jni!(self, FindClass, c"java/lang/Object".as_ptr());
            if class.is_null() {
                return None;
            }
            let name = c"toString".as_ptr();
            let method = jni!(self, GetMethodID, class, name, c"()Ljava/lang/String;".as_ptr());
            if method.is_null() {
                return None;
            }
            let text = jni!(self, CallObjectMethodA, object, method, ptr::null());
            match self.has_exception() || text.is_null() {
                true => None,
                false => Some(self.string(text)),
            }
        }
    }

    /// Has the Java code that called throw an `IllegalStateException`.
    #[cold]
    pub(crate) fn throw(self, message: &str) {
        let message = CString::new(message.replace('\0', " ")).unwrap_or_default();
        // SAFETY: the thread is attached; the texts end with zeros.
        unsafe {
            let class = jni!(self, FindClass, c"java/lang/IllegalStateException".as_ptr());
            if !class.is_null() {
                jni!(self, ThrowNew, class, message.as_ptr());
            }
        }
    }

    fn checked<T>(self, value: T) -> Java<T> {
        match self.has_exception() {
            true => Err(self.take_exception()),
            false => Ok(value),
        }
    }

    /// A class by its name with slashes, as a reference that stays.
    pub(crate) fn lasting_class(self, name: &CStr) -> Java<jclass> {
        // SAFETY: the thread is attached, and the name ends with a zero.
        let class = unsafe { jni!(self, FindClass, name.as_ptr()) };
        let class = self.checked(class)?;
        self.lasting(class)
    }

    /// A reference that stays until the process ends, or until it is given to `let_go`.
    pub(crate) fn lasting(self, object: jobject) -> Java<jobject> {
        // SAFETY: the thread is attached; the reference is this thread's.
        let lasting = unsafe { jni!(self, NewGlobalRef, object) };
        match lasting.is_null() {
            true => Err(JavaError::new("Java is out of memory")),
            false => Ok(lasting),
        }
    }

    /// Gives a lasting reference up.
    ///
    /// # Safety
    /// It came from `lasting` and is not used again.
    pub(crate) unsafe fn let_go(self, object: jobject) {
        // SAFETY: the caller's promise.
        unsafe { jni!(self, DeleteGlobalRef, object) }
    }

    pub(crate) fn static_method(
        self,
        class: jclass,
        name: &CStr,
        signature: &CStr,
    ) -> Java<jmethodID> {
        // SAFETY: the thread is attached, `class` is alive, the texts end with zeros.
        let method =
            unsafe { jni!(self, GetStaticMethodID, class, name.as_ptr(), signature.as_ptr()) };
        self.checked(method)
    }

    pub(crate) fn method(self, class: jclass, name: &CStr, signature: &CStr) -> Java<jmethodID> {
        // SAFETY: as above.
        let method = unsafe { jni!(self, GetMethodID, class, name.as_ptr(), signature.as_ptr()) };
        self.checked(method)
    }

    pub(crate) fn field(self, class: jclass, name: &CStr, signature: &CStr) -> Java<jfieldID> {
        // SAFETY: as above.
        let field = unsafe { jni!(self, GetFieldID, class, name.as_ptr(), signature.as_ptr()) };
        self.checked(field)
    }

    /// # Safety
    /// The method is a static one of the class, of that signature.
    pub(crate) unsafe fn call_static_object(
        self,
        class: jclass,
        method: jmethodID,
        arguments: &[jvalue],
    ) -> Java<jobject> {
        // SAFETY: the caller's promise.
        let value =
            unsafe { jni!(self, CallStaticObjectMethodA, class, method, arguments.as_ptr()) };
        self.checked(value)
    }

    /// # Safety
    /// As for [`Env::call_static_object`].
    pub(crate) unsafe fn call_static_void(
        self,
        class: jclass,
        method: jmethodID,
        arguments: &[jvalue],
    ) -> Java<()> {
        // SAFETY: the caller's promise.
        unsafe { jni!(self, CallStaticVoidMethodA, class, method, arguments.as_ptr()) };
        self.checked(())
    }

    /// # Safety
    /// The method is one of the object's, of that signature.
    pub(crate) unsafe fn call_int(
        self,
        object: jobject,
        method: jmethodID,
        arguments: &[jvalue],
    ) -> Java<jint> {
        // SAFETY: the caller's promise.
        let value = unsafe { jni!(self, CallIntMethodA, object, method, arguments.as_ptr()) };
        self.checked(value)
    }

    /// # Safety
    /// As for [`Env::call_int`].
    pub(crate) unsafe fn call_object(
        self,
        object: jobject,
        method: jmethodID,
        arguments: &[jvalue],
    ) -> Java<jobject> {
        // SAFETY: the caller's promise.
        let value = unsafe { jni!(self, CallObjectMethodA, object, method, arguments.as_ptr()) };
        self.checked(value)
    }

    /// # Safety
    /// As for [`Env::call_int`].
    pub(crate) unsafe fn call_void(
        self,
        object: jobject,
        method: jmethodID,
        arguments: &[jvalue],
    ) -> Java<()> {
        // SAFETY: the caller's promise.
        unsafe { jni!(self, CallVoidMethodA, object, method, arguments.as_ptr()) };
        self.checked(())
    }

    /// # Safety
    /// The method is a constructor of the class, of that signature.
    pub(crate) unsafe fn new_object(
        self,
        class: jclass,
        constructor: jmethodID,
        arguments: &[jvalue],
    ) -> Java<jobject> {
        // SAFETY: the caller's promise.
        let value = unsafe { jni!(self, NewObjectA, class, constructor, arguments.as_ptr()) };
        self.checked(value)
    }

    /// # Safety
    /// The field is one of the object's, and takes the value.
    pub(crate) unsafe fn set_object(self, object: jobject, field: jfieldID, value: jobject) {
        // SAFETY: the caller's promise.
        unsafe { jni!(self, SetObjectField, object, field, value) }
    }

    /// Binds a class's native methods.
    ///
    /// # Safety
    /// The functions have the signatures that the entries state.
    pub(crate) unsafe fn register(self, class: jclass, methods: &[JNINativeMethod]) -> Java<()> {
        let count = methods.len() as jint;
        // SAFETY: the caller's promise; the table is read during the call only.
        unsafe { jni!(self, RegisterNatives, class, methods.as_ptr(), count) };
        self.checked(())
    }

    /// A Java string.
    pub(crate) fn new_string(self, text: &str) -> Java<jstring> {
        let units: Vec<u16> = text.encode_utf16().collect();
        let length = length(units.len(), "a text")?;
        // SAFETY: the units live through the call, which copies them.
        let string = unsafe { jni!(self, NewString, units.as_ptr(), length) };
        self.checked(string)
    }

    /// The text of a Java string; empty for null.
    ///
    /// # Safety
    /// `string` is null or a live `java.lang.String`.
    pub(crate) unsafe fn string(self, string: jstring) -> String {
        if string.is_null() {
            return String::new();
        }
        // SAFETY: the caller's promise; the buffer has space for the string's length.
        unsafe {
            let length = jni!(self, GetStringLength, string);
            let mut units = vec![0u16; length as usize];
            jni!(self, GetStringRegion, string, 0, length, units.as_mut_ptr());
            String::from_utf16_lossy(&units)
        }
    }

    /// A Java byte array.
    pub(crate) fn new_bytes(self, bytes: &[u8]) -> Java<jbyteArray> {
        let length = length(bytes.len(), "an array")?;
        // SAFETY: the region is as long as the new array, and the bytes live through the call.
        unsafe {
            let array = jni!(self, NewByteArray, length);
            let array = self.checked(array)?;
            jni!(self, SetByteArrayRegion, array, 0, length, bytes.as_ptr().cast());
            self.checked(array)
        }
    }

    /// The bytes of a Java byte array; none for null.
    ///
    /// # Safety
    /// `array` is null or a live `byte[]`.
    pub(crate) unsafe fn bytes(self, array: jbyteArray) -> Vec<u8> {
        if array.is_null() {
            return Vec::new();
        }
        // SAFETY: the caller's promise; the buffer has space for the array's length.
        unsafe {
            let length = jni!(self, GetArrayLength, array);
            let mut bytes = vec![0u8; length as usize];
            jni!(self, GetByteArrayRegion, array, 0, length, bytes.as_mut_ptr().cast());
            bytes
        }
    }

    /// A `ByteBuffer` over memory of the host.
    ///
    /// # Safety
    /// The memory stays where it is for as long as Java code can reach the buffer.
    pub(crate) unsafe fn direct_buffer(self, start: *mut u8, bytes: usize) -> Java<jobject> {
        let address: *mut c_void = start.cast();
        // SAFETY: the caller's promise.
        let buffer = unsafe { jni!(self, NewDirectByteBuffer, address, bytes as i64) };
        self.checked(buffer)
    }
}

fn length(count: usize, what: &str) -> Java<jint> {
    jint::try_from(count)
        .map_err(|_| JavaError::new(format!("{what} of {count} elements is too long for Java")))
}
