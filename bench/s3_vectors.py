# SPDX-License-Identifier: Apache-2.0
"""Signatures of boto3's signer (botocore, of PyPI) for odd keys and listings, as the fixture tests/unit/s3/boto_vectors.h.

    python3 -m venv v && v/bin/pip install botocore && v/bin/python bench/s3_vectors.py > tests/unit/s3/boto_vectors.h

Neither keys nor requests are of anyone: no request is sent.
"""

import datetime
import random
import urllib.parse

import botocore
import botocore.auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

NOW = datetime.datetime(2026, 11, 23, 14, 0, 0)
KEYS = ["plain.deb", "a b.deb", "plus+sign", "percent%41", "uml\u00e4ut \u20ac \U0001f41b", "quote'\"<&>", "eq=u;al,s@x:y", "tilde~(1)!*", "deep//er/./and",
        "#hash?query", "[b]{c}|^`\\", "tab\tand\x7f", "trailing ", " leading", "/", "~", "%", "a/../b", "\u0301combining", "-._~"]
QUERIES = [[("list-type", "2"), ("max-keys", "1000"), ("encoding-type", "url"), ("prefix", "a b/+%&=\u00e4")],
           [("list-type", "2"), ("continuation-token", "1/ab+c==&x"), ("prefix", "debs/")], [("uploads", "")],
           [("partNumber", "10"), ("uploadId", "a+b/c=~ ")]]


def now(*_):
    return NOW


def c_string(text):
    return '"' + "".join(chr(b) if 32 <= b < 127 and b not in b'"\\?' else f"\\{b:03o}" for b in text.encode()) + '"'


def signature(path, query, token):
    url = "https://bucket.example:9000" + urllib.parse.quote(path, safe="/~")
    if query:
        url += "?" + "&".join(f"{urllib.parse.quote(k, safe='-_.~')}={urllib.parse.quote(v, safe='-_.~')}" for k, v in query)
    request = AWSRequest("GET", url, headers={"Host": "bucket.example:9000"})
    request.context["payload_signing_enabled"] = True
    botocore.auth.S3SigV4Auth(Credentials("AKTEST", "hush/hush+hush", token), "s3", "eu-west-1").add_auth(request)
    return request.headers["Authorization"].rsplit("Signature=", 1)[1]


def main():
    botocore.auth.get_current_datetime = now
    rng = random.Random(1)
    keys = KEYS + ["".join(chr(rng.choice([rng.randrange(33, 127), rng.randrange(0xa1, 0x3000)])) for _ in range(20)) for _ in range(10)]
    cases = [("/b/" + k, [], None) for k in keys] + [("/b", q, t) for q in QUERIES for t in (None, "a+token/==")]
    print(f"/* SPDX-License-Identifier: Apache-2.0 */\n/* Made by bench/s3_vectors.py, with botocore {botocore.__version__}. */")
    print("static const struct boto_vector {\n\tconst char *path, *token, *query[8], *signature;\n} boto_vectors[] = {")
    for path, query, token in cases:
        fields = ", ".join(c_string(x) for pair in query for x in pair) or "NULL"
        print(f"\t{{ {c_string(path)}, {c_string(token) if token else 'NULL'}, {{ {fields} }},\n\t  \"{signature(path, query, token)}\" }},")
    print("};")


if __name__ == "__main__":
    main()
