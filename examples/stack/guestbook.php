<?php
// A guest book. The primary of the database can change at any time: if a connection ends, the page connects again.
function database(string $host): PDO
{
    $address = sprintf('mysql:host=%s;port=%s;dbname=%s', $host, getenv('DB_PORT'), getenv('DB_DATABASE'));
    $options = [
        PDO::ATTR_ERRMODE => PDO::ERRMODE_EXCEPTION,
        PDO::ATTR_TIMEOUT => 2,
        PDO::MYSQL_ATTR_SSL_CA => getenv('DB_SSL_CA'),
    ];
    return new PDO($address, getenv('DB_USERNAME'), getenv('DB_PASSWORD'), $options);
}

function again(callable $do): mixed
{
    for ($end = microtime(true) + 20;;) {
        try {
            return $do();
        } catch (PDOException $error) {
            if (microtime(true) > $end) {
                throw $error;
            }
            usleep(200000);
        }
    }
}

if (PHP_SAPI === 'cli') {
    again(fn() => database(getenv('DB_HOST'))->exec(
        'CREATE TABLE IF NOT EXISTS entries (id CHAR(32) PRIMARY KEY, at TIMESTAMP(6) NOT NULL DEFAULT CURRENT_TIMESTAMP(6), name VARCHAR(80) NOT NULL, text VARCHAR(1000) NOT NULL)'
    ));
    exit;
}

if ($_SERVER['REQUEST_METHOD'] === 'POST') {
    // Each attempt uses the same key, so an entry whose acknowledgement was lost is not stored twice.
    $entry = [bin2hex(random_bytes(16)), mb_substr($_POST['name'] ?? '', 0, 80), mb_substr($_POST['text'] ?? '', 0, 1000)];
    again(fn() => database(getenv('DB_HOST'))->prepare('INSERT IGNORE INTO entries (id, name, text) VALUES (?, ?, ?)')->execute($entry));
    header('Location: /', true, 303);
    exit;
}
[$entries, $server] = again(function () {
    $database = database(getenv('DB_HOST'));
    return [
        $database->query('SELECT at, name, text FROM entries ORDER BY at DESC LIMIT 50')->fetchAll(),
        $database->query('SELECT @@hostname')->fetchColumn(),
    ];
});
$safe = fn(string $text): string => htmlspecialchars($text, ENT_QUOTES);
?>
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<title>Guest book</title>
<style>
    body { font: 18px/1.5 sans-serif; max-width: 40em; margin: 2em auto; color: #223; }
    form { display: grid; gap: .5em; margin-bottom: 2em; }
    input, textarea, button { font: inherit; padding: .4em; }
    li { list-style: none; border-top: 1px solid #ccd; padding: .5em 0; }
    ul { padding: 0; } small { color: #667; }
</style>
<h1>Guest book</h1>
<form method="post">
    <input id="name" name="name" placeholder="Name" required>
    <textarea id="text" name="text" placeholder="What do you want to say?" required></textarea>
    <button id="send">Sign</button>
</form>
<ul>
<?php foreach ($entries as $entry): ?>
    <li><b><?= $safe($entry['name']) ?></b> <small><?= $safe(substr($entry['at'], 0, 19)) ?></small><br><?= $safe($entry['text']) ?></li>
<?php endforeach ?>
</ul>
<p><small>Page by <?= $safe(gethostname()) ?>, data by <span id="primary"><?= $safe($server) ?></span></small></p>
