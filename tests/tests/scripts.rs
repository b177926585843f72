//! The estimate of a text against a real tokenizer, o200k, script by script.

use conformance::{Kind, ScriptedModel, SessionBuilder, create};
use futures_util::FutureExt;
use harness_compact_host::types::{AgentContext, Config};
use std::sync::Arc;
use tiktoken_rs::o200k_base;

/// Running text: what people write to an agent, and what documents say.
const TEXTS: &[(&str, &[&str])] = &[
    // What an agent reads in Latin is part prose, which costs less than a quarter of
    // a token a character, and part code and JSON, which cost more.
    (
        "Latin",
        &[
            "All human beings are born free and equal in dignity and rights. They are endowed with reason and conscience and should act towards one another in a spirit of brotherhood.",
            "Please read the configuration file first and tell me why the server does not start. I changed the port yesterday and have not touched anything else since then.",
            "The meeting was moved to Thursday because two of the engineers are travelling. Could you update the plan and send everyone a short note about what has to be finished before?",
            JSON,
            CODE,
        ],
    ),
    (
        "Han",
        &[
            "人人生而自由，在尊严和权利上一律平等。他们赋有理性和良心，并应以兄弟关系的精神相对待。",
            "请先读一下配置文件，然后告诉我为什么服务器启动不了。我昨天改了端口，之后没有动过别的东西。",
            "会议改到星期四，因为有两位工程师出差。请更新计划，并给大家发一封简短的邮件，说明在那之前必须完成哪些工作。",
            "这个函数的作用是解析输入，如果格式不正确就返回错误。测试失败的原因是缺少一个分号，我已经修复了这个问题。",
        ],
    ),
    (
        "Kana",
        &[
            "すべての人間は、生まれながらにして自由であり、かつ、尊厳と権利とについて平等である。人間は、理性と良心とを授けられており、互いに同胞の精神をもって行動しなければならない。",
            "まず設定ファイルを読んで、サーバーが起動しない理由を教えてください。昨日ポートを変更しましたが、それ以外は何も触っていません。",
            "エンジニアが二人出張しているので、ミーティングは木曜日に変更になりました。それまでに終わらせなければならないことを短いメールでみんなに伝えてください。",
        ],
    ),
    (
        "Hangul",
        &[
            "모든 인간은 태어날 때부터 자유로우며 그 존엄과 권리에 있어 동등하다. 인간은 천부적으로 이성과 양심을 부여받았으며 서로 형제애의 정신으로 행동하여야 한다.",
            "먼저 설정 파일을 읽고 서버가 시작되지 않는 이유를 알려 주세요. 어제 포트를 바꿨고 그 뒤로는 아무것도 건드리지 않았습니다.",
            "엔지니어 두 명이 출장 중이라서 회의가 목요일로 옮겨졌습니다. 그 전에 끝내야 할 일을 짧은 메일로 모두에게 알려 주세요.",
        ],
    ),
    (
        "Cyrillic",
        &[
            "Все люди рождаются свободными и равными в своем достоинстве и правах. Они наделены разумом и совестью и должны поступать в отношении друг друга в духе братства.",
            "Сначала прочитай файл настроек и скажи мне, почему сервер не запускается. Вчера я поменял порт и с тех пор больше ничего не трогал.",
            "Встречу перенесли на четверг, потому что двое инженеров в командировке. Обнови план и разошли всем короткое письмо о том, что нужно закончить до этого.",
        ],
    ),
    (
        "Greek",
        &[
            "Όλοι οι άνθρωποι γεννιούνται ελεύθεροι και ίσοι στην αξιοπρέπεια και τα δικαιώματα. Είναι προικισμένοι με λογική και συνείδηση, και οφείλουν να συμπεριφέρονται μεταξύ τους με πνεύμα αδελφοσύνης.",
            "Διάβασε πρώτα το αρχείο ρυθμίσεων και πες μου γιατί δεν ξεκινά ο διακομιστής. Χθες άλλαξα τη θύρα και από τότε δεν έχω πειράξει τίποτα άλλο.",
        ],
    ),
    (
        "Arabic",
        &[
            "يولد جميع الناس أحرارا متساوين في الكرامة والحقوق. وقد وهبوا عقلا وضميرا وعليهم أن يعامل بعضهم بعضا بروح الإخاء.",
            "اقرأ ملف الإعدادات أولا ثم قل لي لماذا لا يبدأ الخادم. لقد غيرت المنفذ أمس ولم ألمس شيئا آخر منذ ذلك الحين.",
        ],
    ),
    (
        "Hebrew",
        &[
            "כל בני האדם נולדו בני חורין ושווים בערכם ובזכויותיהם. כולם חוננו בתבונה ובמצפון, לפיכך חובה עליהם לנהוג איש ברעהו ברוח של אחווה.",
            "קרא קודם את קובץ ההגדרות ואמור לי למה השרת לא עולה. שיניתי אתמול את הפורט ומאז לא נגעתי בשום דבר אחר.",
        ],
    ),
    (
        "Devanagari",
        &[
            "सभी मनुष्यों को गौरव और अधिकारों के मामले में जन्मजात स्वतन्त्रता और समानता प्राप्त है। उन्हें बुद्धि और अन्तरात्मा की देन प्राप्त है और परस्पर उन्हें भाईचारे के भाव से बर्ताव करना चाहिए।",
            "पहले कॉन्फ़िगरेशन फ़ाइल पढ़ो और मुझे बताओ कि सर्वर क्यों शुरू नहीं हो रहा है। मैंने कल पोर्ट बदला था और उसके बाद कुछ और नहीं छुआ है।",
        ],
    ),
    (
        "Thai",
        &[
            "มนุษย์ทั้งหลายเกิดมามีอิสระและเสมอภาคกันในเกียรติศักดิ์และสิทธิ ต่างมีเหตุผลและมโนธรรม และควรปฏิบัติต่อกันด้วยเจตนารมณ์แห่งภราดรภาพ",
            "อ่านไฟล์ตั้งค่าก่อนแล้วบอกฉันว่าทำไมเซิร์ฟเวอร์ถึงไม่เริ่มทำงาน เมื่อวานฉันเปลี่ยนพอร์ตและหลังจากนั้นก็ไม่ได้แตะอะไรอีก",
        ],
    ),
    (
        "Georgian",
        &[
            "ყველა ადამიანი იბადება თავისუფალი და თანასწორი თავისი ღირსებითა და უფლებებით. მათ მინიჭებული აქვთ გონება და სინდისი და ერთმანეთის მიმართ უნდა იქცეოდნენ ძმობის სულისკვეთებით.",
        ],
    ),
    (
        "Armenian",
        &[
            "Բոլոր մարդիկ ծնվում են ազատ ու հավասար՝ իրենց արժանապատվությամբ և իրավունքներով։ Նրանք ունեն բանականություն ու խիղճ, և միմյանց պետք է եղբայրաբար վերաբերվեն։",
        ],
    ),
];

const JSON: &str = r#"{"type":"tool/result","seq":41,"data":{"turn":3,"step":1,"message":{"id":"m17","role":"user","content":[{"type":"text","text":"ok"}]}}}"#;
const CODE: &str = "fn headward(pairing: &Pairing, mut cut: usize) -> usize {\n    while cut > 0 && !pairing.balanced_before(cut) {\n        cut -= 1;\n    }\n    cut\n}\n";
const BASE64: &str = "iVBORw0KGgoAAAANSUhEUgAAAAUAAAAFCAYAAACNbyblAAAAHElEQVQI12P4//8/w38GIAXDIBKE0DHxgljNBAAO9TXL0Y4OHwAAAABJRU5ErkJggg==";

/// A text as the engine prices it, without the overhead of block and message.
fn estimate(text: &str, script_aware: bool) -> f64 {
    let session = SessionBuilder::new("text");
    session.user(text);
    let config = Config {
        script_aware: Some(script_aware),
        ..Config::default()
    };
    let model = Arc::new(ScriptedModel::default());
    let compactor = create(Kind::Native, config, model, None).now_or_never();
    let mut compactor = compactor.expect("no waiting").expect("it can be made");
    let log = session.session();
    let agent = AgentContext::default();
    let measured = compactor.measure(&log, &agent, "", &[]).now_or_never();
    f64::from(
        measured
            .expect("no waiting")
            .expect("it can be measured")
            .total_tokens,
    ) - 8.0
}

#[test]
fn every_script_is_within_15_percent() {
    let tokenizer = o200k_base().expect("the vocabulary is part of the crate");
    let mut beyond = Vec::new();
    for (script, texts) in TEXTS {
        let (mut counted, mut weighed, mut plain) = (0.0, 0.0, 0.0);
        for text in *texts {
            counted += tokenizer.encode_ordinary(text).len() as f64;
            weighed += estimate(text, true);
            plain += estimate(text, false);
        }
        let error = weighed / counted - 1.0;
        let off = plain / counted - 1.0;
        println!(
            "{script:12} {counted:5} tokens, estimate {:+5.1} %, by length alone {:+5.1} %",
            error * 100.0,
            off * 100.0
        );
        if error.abs() > 0.15 {
            beyond.push(format!("{script}: {:+.1} %", error * 100.0));
        }
    }
    assert!(beyond.is_empty(), "{beyond:?}");
}

#[test]
fn ascii_is_priced_by_its_length() {
    let tokenizer = o200k_base().expect("the vocabulary is part of the crate");
    let prose = TEXTS[0].1[0];
    for (kind, text) in [
        ("prose", prose),
        ("JSON", JSON),
        ("code", CODE),
        ("base64", BASE64),
    ] {
        let counted = tokenizer.encode_ordinary(text).len() as f64;
        let weighed = estimate(text, true);
        println!(
            "{kind:12} {counted:5} tokens, estimate {:+5.1} %",
            (weighed / counted - 1.0) * 100.0
        );
        assert_eq!(weighed, text.len().div_ceil(4) as f64, "{kind}");
        assert_eq!(weighed, estimate(text, false), "{kind}");
    }
}
