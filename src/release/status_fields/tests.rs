use super::{FieldSource, FieldType, Known, StatusFields};
use crate::object::{Object, ObjectId, parse_manifest};
use crate::render::Hook;
use crate::render::order;

const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web}\n";

fn document(fields: &str) -> String {
    format!(
        "apiVersion: tillerman.dev/v1alpha1\nkind: Status\nmetadata: {{name: s, annotations: {{helm.sh/hook: status}}}}\nfields: {fields}\n"
    )
}

fn sorted(documents: &[&str]) -> (Vec<Hook>, Vec<Object>) {
    let text = documents.join("\n---\n");
    let sorted = order::sort(&[("c/templates/a.yaml".to_owned(), text)]).unwrap();
    let objects = sorted.manifests.iter().flat_map(|m| parse_manifest(&m.text).unwrap()).collect();
    (sorted.unknown, objects)
}

/// The names of the fields of documents, each from a template.
fn names(documents: &[(&str, String)]) -> Result<Vec<String>, String> {
    let files: Vec<_> = documents.iter().map(|(file, text)| ((*file).to_owned(), text.clone())).collect();
    let read = StatusFields::parse(&order::sort(&files).unwrap().unknown)?;
    let shown = |field: super::Field| match field.source {
        FieldSource::Value(value) => format!("{}={}", field.name, value.as_str().unwrap()),
        other => panic!("{other:?}"),
    };
    Ok(read.unwrap().fields.into_iter().map(shown).collect())
}

#[test]
fn fields_of_a_chart_replace_or_hide_those_of_its_dependencies() {
    let below =
        ("c/charts/php/templates/a.yaml", document("{a: {value: below}, b: {value: below}, c: {value: below}}"));
    let above = ("c/templates/z.yaml", document("{a: {value: above}, b: null}"));
    assert_eq!(names(&[below.clone(), above]).unwrap(), ["a=above", "c=below"]);
    let beside = ("c/charts/redis/templates/a.yaml", document("{c: {value: beside}}"));
    assert_eq!(names(&[below, beside]).unwrap_err(), "Status s: there are two fields c");
}

fn read(documents: &[&str]) -> Result<Option<StatusFields>, String> {
    let (unknown, objects) = sorted(documents);
    let known = Known { objects: &objects, namespace: "ns", members: &["db"], facts: &["size", "ready"] };
    StatusFields::read(&unknown, known)
}

#[test]
fn a_document_is_read_and_comes_back_from_the_annotation() {
    let text = document(
        "{endpoint: {value: 'web.ns.svc:80', column: true}, port: {value: 80, type: integer}, ready: {members: db, field: ready, type: \
         integer}, address: {from: {apiVersion: v1, kind: Service, name: web, path: '.status.loadBalancer.ingress[0].ip'}}}",
    );
    let found = read(&[SERVICE, &text]).unwrap().unwrap();
    let names: Vec<&str> = found.fields.iter().map(|field| field.name.as_str()).collect();
    assert_eq!(names, ["endpoint", "port", "ready", "address"]);
    assert!(found.fields[0].column && !found.fields[1].column);
    assert_eq!(found.fields[1].kind, FieldType::Integer);
    let FieldSource::From(place) = &found.fields[3].source else { panic!("{found:?}") };
    let id = |namespace: Option<&str>, name: &str| ObjectId {
        gvk: place.gvk(),
        namespace: namespace.map(Into::into),
        name: name.into(),
    };
    assert!(place.is(&id(Some("ns"), "web"), "ns") && place.is(&id(None, "web"), "ns"));
    assert!(!place.is(&id(Some("other"), "web"), "ns") && !place.is(&id(Some("ns"), "web2"), "ns"));
    assert_eq!(StatusFields::decode(&found.encode().unwrap()), Some(found));
    assert_eq!(StatusFields::decode("no"), None);
    assert_eq!(read(&[SERVICE]), Ok(None));
}

#[test]
fn a_mistake_is_named_with_its_place_and_what_may_be_there() {
    let from = |place: &str| format!("{{a: {{from: {place}}}}}");
    for (fields, part) in [
        ("[]", "fields is not an object"),
        ("{conditions: {value: a}}", "fields.conditions: the operator itself writes status.conditions"),
        ("{Big: {value: a}}", "fields.Big: a name has letters and digits"),
        ("{a: {}}", "fields.a has none of value, from, and members with field"),
        ("{a: {value: b, members: db, field: ready}}", "fields.a has more than one of value, from"),
        ("{a: {valeu: b}}", "fields.a.valeu is unknown; the fields are value, from"),
        ("{a: {value: 1.20}}", "fields.a.value has the type number, and the field the type string: quote it"),
        ("{a: {value: a, type: text}}", "fields.a.type \"text\" is unknown"),
        ("{a: {value: [], type: array, column: true}}", "fields.a.column: a column cannot show array"),
        ("{a: {members: db}}", "fields.a.field, the fact of the members to show, is missing"),
        ("{a: {members: web, field: ready}}", "fields.a.members: there is no Members web; the chart has db"),
        ("{a: {members: db, field: sise}}", "fields.a.field \"sise\" is unknown; the fields are size, ready"),
        (&from("{apiVersion: v1, kind: Service, name: web}"), "fields.a.from.path is missing"),
        (&from("{apiVersion: v1, kind: Service, name: web, path: a}"), "fields.a.from.path: \"a\" is not a path"),
        (
            &from("{apiVersion: v1, kind: Service, name: db, path: .a}"),
            "fields.a.from: the chart renders no Service db of v1",
        ),
        (
            &from("{apiVersion: v2, kind: Service, name: web, path: .a}"),
            "fields.a.from: the chart has Service web in v1",
        ),
        (&from("{apiVersion: v1, kind: Service, name: web, namespace: x, path: .a}"), "renders no Service web"),
        (&from("{apiVersion: v1, kind: Secret, name: web, path: .data.a}"), "the content of a Secret is not shown"),
    ] {
        let why = read(&[SERVICE, &document(fields)]).unwrap_err();
        assert!(why.starts_with("Status") && why.contains(part), "{fields}: {why}");
    }
    let many: Vec<String> = (0..40).map(|n| format!("a{n}: {{value: b}}")).collect();
    let why = read(&[&document(&format!("{{{}}}", many.join(", ")))]).unwrap_err();
    assert!(why.contains("there are more than 32 fields"), "{why}");
    let long = document(&format!("{{a: {{value: {}}}}}", "x".repeat(5000)));
    assert!(read(&[&long]).unwrap_err().contains("fields.a.value has more than 4096 bytes"));
    let why =
        read(&["apiVersion: tillerman.dev/v1alpha1\nkind: Status\nmetadata: {name: s}\nfields: {}\n"]).unwrap_err();
    assert!(why.contains("lacks the annotation helm.sh/hook: status"), "{why}");
}

#[test]
fn no_field_of_the_operator_can_be_a_field_of_the_chart() {
    use crate::crd::{CrdSettings, Names, of_chart};
    let chart = crate::chart::Chart::default();
    let made = of_chart(&chart, &Names::of_chart(&chart), CrdSettings::default(), &[], &[]).unwrap().definition;
    let status = &made["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"];
    for name in status.as_object().unwrap().keys() {
        assert!(super::RESERVED.contains(&name.as_str()), "{name}");
    }
}
