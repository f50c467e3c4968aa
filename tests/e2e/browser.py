# SPDX-License-Identifier: Apache-2.0
"""A real browser without a screen: Debian's chromium, driven by chromedriver over JSON (W3C WebDriver)."""

import base64
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
KEY_ENTER = "\ue007"


class Refused(Exception):
    pass


class Browser:
    def __init__(self, width=1280, height=900, extra=()):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.home = tempfile.TemporaryDirectory(prefix="lode-browser-", ignore_cleanup_errors=True)
        env = {k: v for k, v in os.environ.items() if not k.lower().endswith("_proxy")} | {"HOME": self.home.name}
        self.driver = subprocess.Popen(["chromedriver", f"--port={port}"], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.url = f"http://127.0.0.1:{port}"
        # Requests over loopback must not go through a proxy of the environment.
        self.opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        try:
            self.wait(self.is_up, "chromedriver")
            args = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run", "--no-proxy-server",
                    "--disable-background-networking", "--disable-component-update", f"--window-size={width},{height}",
                    f"--user-data-dir={self.home.name}/profile", *extra]
            made = self.say("POST", "/session", {"capabilities": {"alwaysMatch": {
                "goog:chromeOptions": {"args": args}, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}}})
            self.url += f"/session/{made['sessionId']}"
        except BaseException:
            self.close()
            raise

    def close(self):
        if "/session/" in self.url:
            try:
                self.say("DELETE", "")
            except (OSError, Refused):
                pass
        self.driver.terminate()
        self.driver.wait(20)
        self.home.cleanup()

    def is_up(self):
        try:
            return self.say("GET", "/status")["ready"]
        except OSError:
            return False

    def say(self, method, path, body=None):
        data = None if method != "POST" else json.dumps(body or {}).encode()
        request = urllib.request.Request(self.url + path, data, {"Content-Type": "application/json"}, method=method)
        try:
            with self.opener.open(request, timeout=60) as reply:
                return json.load(reply)["value"]
        except urllib.error.HTTPError as e:
            raise Refused(json.load(e)["value"]["message"]) from None

    @staticmethod
    def wait(condition, what, timeout=30):
        end = time.monotonic() + timeout
        while not (value := condition()):
            if time.monotonic() > end:
                raise AssertionError(f"not after {timeout} s: {what}")
            time.sleep(0.05)
        return value

    def open(self, url):
        self.say("POST", "/url", {"url": url})

    def run(self, script, *args):
        return self.say("POST", "/execute/sync", {"script": script, "args": list(args)})

    def run_async(self, script, *args):
        """The script calls its last argument with the result."""
        return self.say("POST", "/execute/async", {"script": script, "args": list(args)})

    def text(self, selector="body"):
        """The visible text of the element, "" if there is none."""
        return self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector)

    def wait_text(self, selector, part, timeout=30):
        try:
            self.wait(lambda: part in self.text(selector), part, timeout)
        except AssertionError as e:
            raise AssertionError(f"{e}; {selector} says:\n{self.text(selector)}") from None

    def type(self, selector, keys):
        element = self.say("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]
        self.say("POST", f"/element/{element}/clear")
        self.say("POST", f"/element/{element}/value", {"text": keys})

    def press(self, *keys):
        """Press keys in the element with the focus."""
        actions = [{"type": kind, "value": key} for key in keys for kind in ("keyDown", "keyUp")]
        self.say("POST", "/actions", {"actions": [{"type": "key", "id": "keys", "actions": actions}]})

    def click(self, selector):
        """Click on an element. One that the page draws anew before the click arrives is found again."""
        def clicked():
            element = self.say("POST", "/element", {"using": "css selector", "value": selector})[ELEMENT]
            try:
                self.say("POST", f"/element/{element}/click")
            except Refused as e:
                if "stale element" not in str(e):
                    raise
                return False
            return True

        self.wait(clicked, f"a click on {selector}")

    def log(self, kind):
        """Log entries since the last call: "browser" is the console, "performance" has the requests."""
        return self.say("POST", "/se/log", {"type": kind})

    def requests(self):
        """The URLs requested since the last call."""
        messages = (json.loads(entry["message"])["message"] for entry in self.log("performance"))
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def devtools(self, command, **params):
        return self.say("POST", "/goog/cdp/execute", {"cmd": command, "params": params})

    def look(self, dark=False, width=1280):
        self.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600)

    def picture(self, path):
        """The whole page as a PNG, for people."""
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as f:
            f.write(base64.b64decode(shot["data"]))
