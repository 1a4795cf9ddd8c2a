//! Java classes as @UpdateClasses takes, refuses and removes them. Without a JDK these tests say so
//! and pass.

use crate::java::{BEHAVE, compile, host, jar, load, refused_source};
use crate::support::{Answer, Peer};
use lockstep_types::Datum;
use std::process::Command;

fn remove(peer: &mut Peer, patterns: &str) -> Answer {
    peer.call("@UpdateClasses", &[Datum::Null, Datum::Text(patterns)])
}

fn classes(peer: &mut Peer) -> usize {
    peer.call("@SystemCatalog", &[Datum::Text("CLASSES")]).rows.lines().count()
}

#[test]
fn the_last_class_can_be_removed() {
    let Some((_server, mut peer)) = host(1, BEHAVE) else { return };
    let before = classes(&mut peer);
    peer.run("DROP PROCEDURE Behave");
    for patterns in ["", "com.example.**"] {
        let answer = remove(&mut peer, patterns);
        assert_eq!((answer.status, classes(&mut peer)), (1, before), "{patterns}: {answer:?}");
    }
    let answer = remove(&mut peer, "**");
    assert_eq!((answer.status, classes(&mut peer)), (1, 0), "{}", answer.text);
    assert_eq!(remove(&mut peer, "**").status, 1, "those of none");
    let answer = peer.sql("CREATE PROCEDURE FROM CLASS Behave");
    assert!(answer.text.contains("Cannot find class: Behave"), "{}", answer.text);
    let empty = peer.call("@UpdateClasses", &[Datum::Bytes(b"none"), Datum::Null]);
    assert!(empty.status < 0 && empty.text.contains("not a jar"), "{}", empty.text);
    load(&mut peer, jar().expect("there is one"));
    assert_eq!(classes(&mut peer), before);
}

#[test]
fn a_class_in_use_is_not_removed_and_its_users_are_named() {
    let schema = format!(
        "{BEHAVE} CREATE PROCEDURE again PARTITION ON TABLE t COLUMN k FROM CLASS Behave;
        CREATE PROCEDURE FROM CLASS Stages; CREATE FUNCTION greet FROM METHOD Functions.greet;
        CREATE AGGREGATE FUNCTION median FROM CLASS Functions$Median;"
    );
    let Some((_server, mut peer)) = host(1, &schema) else { return };
    let before = classes(&mut peer);
    for (patterns, part) in [
        (
            "Behave",
            "it is used by procedure \"Behave\", procedure \"again\". Drop what uses it first.",
        ),
        ("**", "Class Behave cannot be removed"),
        ("Stages", "Class Stages cannot be removed: it is used by procedure \"Stages\""),
        ("Functions", "Class Functions cannot be removed: it is used by function \"greet\""),
        ("F*$M*", "Class Functions$Median cannot be removed: it is used by function \"median\""),
    ] {
        let answer = remove(&mut peer, patterns);
        assert!(answer.status < 0 && answer.text.contains(part), "{patterns}: {}", answer.text);
        assert_eq!(classes(&mut peer), before);
    }
    peer.run("DROP PROCEDURE again; DROP PROCEDURE Behave");
    assert_eq!(remove(&mut peer, "Behave").status, 1);
    assert_eq!(classes(&mut peer), before - 1);
}

#[test]
fn classes_whose_initializers_fail_are_refused() {
    let Some((_server, mut peer)) = host(1, BEHAVE) else { return };
    let before = classes(&mut peer);
    for (class, parts) in [
        (
            "FailingInitializer",
            &["Cannot load class: FailingInitializer$Rarely", "NumberFormatException"][..],
        ),
        ("MissingLibrary", &["Cannot load class: MissingLibrary", "UnsatisfiedLinkError"]),
    ] {
        let refused = compile(class, &[refused_source(class)]);
        let answer = peer.call("@UpdateClasses", &[Datum::Bytes(&refused), Datum::Null]);
        assert!(answer.status < 0, "{class}: {answer:?}");
        for part in parts {
            assert!(answer.text.contains(part), "{class}: {part} in {}", answer.text);
        }
        assert_eq!(classes(&mut peer), before, "{class}");
    }
    assert_eq!(peer.call("Behave", &[Datum::Int(1), Datum::Text("well")]).rows, "1");
}

#[test]
fn a_nested_class_is_a_procedure_of_both_names() {
    let schema = "
        CREATE TABLE texts (k BIGINT NOT NULL PRIMARY KEY, s VARCHAR(20));
        PARTITION TABLE texts ON COLUMN k;
        CREATE PROCEDURE FROM CLASS TextBytes$Buffers;
        PARTITION PROCEDURE TextBytes$Buffers ON TABLE texts COLUMN k;
        CREATE PROCEDURE Named PARTITION ON TABLE texts COLUMN k FROM CLASS TextBytes$Buffers;";
    let Some((_server, mut peer)) = host(2, schema) else { return };
    for (key, name) in [(1, "TextBytes$Buffers"), (2, "Named")] {
        let answer = peer.call(name, &[Datum::Int(key), Datum::Bytes(b"four")]);
        assert_eq!((answer.status, answer.rows.as_str()), (1, "4"), "{name}: {}", answer.text);
    }
    let simple = peer.call("Buffers", &[Datum::Int(3), Datum::Bytes(b"four")]);
    assert!(simple.status < 0 && simple.text.contains("Buffers"), "{simple:?}");
    let few = peer.call("TextBytes$Buffers", &[Datum::Int(3)]);
    assert!(few.text.contains("PROCEDURE TextBytes$Buffers EXPECTS 2 PARAMS"), "{}", few.text);
    let listed = peer.call("@SystemCatalog", &[Datum::Text("PROCEDURES")]).rows;
    assert!(listed.contains("TextBytes$Buffers"), "{listed}");
    peer.run("DROP PROCEDURE TextBytes$Buffers");
    assert_eq!(peer.call("Named", &[Datum::Int(4), Datum::Bytes(b"")]).rows, "0");
}

#[test]
fn the_jar_to_compile_against_holds_no_library_under_its_own_name() {
    if jar().is_none() {
        return;
    }
    let folder = std::env::temp_dir().join(format!("lockstep-jar-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    std::fs::write(folder.join("api.jar"), lockstep_jvm::runtime_jar()).expect("a file");
    let run = |arguments: &[&str]| {
        let done = Command::new("jar").args(arguments).current_dir(&folder).output();
        String::from_utf8(done.expect("jar runs").stdout).expect("names are text")
    };
    let entries = run(&["tf", "api.jar"]);
    let ours = ["org/voltdb/", "org/lockstepdb/", "org/voltcore/", "org/json_voltpatches/"];
    for class in entries.lines().filter(|entry| entry.ends_with(".class")) {
        assert!(ours.iter().any(|package| class.starts_with(package)), "{class}");
    }
    assert!(entries.contains("org/lockstepdb/asm/ClassReader.class"));
    run(&["xf", "api.jar", "META-INF"]);
    let read = |name: &str| std::fs::read_to_string(folder.join("META-INF").join(name));
    let (notice, licence) = (read("NOTICE").expect("a file"), read("LICENSE").expect("a file"));
    std::fs::remove_dir_all(&folder).expect("the folder is removed");
    let asm = notice.find("Copyright (c) 2000-2011 INRIA").expect("the notice of ASM");
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../NOTICE");
    let all = std::fs::read_to_string(root).expect("the project's NOTICE");
    assert!(all.contains(notice[asm..].trim_end()), "the project's NOTICE has that of ASM");
    assert!(licence.contains("Apache License"));
}
