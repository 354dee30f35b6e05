# Two authorities, and the certificate of a node on 127.0.0.1 that the first one signed, in the current folder.
# SPDX-License-Identifier: Apache-2.0
set -e
for ca in ca other; do
    openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $ca.key -out $ca.pem -days 2 -subj /CN=$ca
done
openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout node.key -out node.csr -subj /CN=node
echo subjectAltName=IP:127.0.0.1 > node.ext
openssl x509 -req -in node.csr -CA ca.pem -CAkey ca.key -CAcreateserial -extfile node.ext -out node.pem -days 2
